"""Every figure of the README in one run: `python -m tests.bench.run [--quick] [--iris]`.

Prints one JSON object on standard output and a table on standard error. `--iris` runs Iris on the same work on
the same machine, right after, with `shared/bench/iris_bench.py` beside the checkout (or $IRIS_BENCH).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import ceiling, container_step, floors, idle_agent, latency, throughput
from .bed import bed

ROOT = Path(__file__).resolve().parents[2]

# figure → (path into the result, budget, is less better, unit, path into Iris's result)
ROWS: dict[str, tuple[str, float, bool, str, str]] = {
    "P1 submit → process starts": (
        "p1_submit_to_process_start_ms.p50",
        6,
        True,
        "ms",
        "split_latency.exec_start_ms.median",
    ),
    "P2 submit → client sees the end": (
        "p2_submit_to_seen_finished_ms.p50",
        10,
        True,
        "ms",
        "split_latency.done_ms.median",
    ),
    "P3 no-op tasks, one agent": ("p3_tasks_per_s.median", 500, False, "/s", "split_1job_200.tasks_per_s"),
    "jobs: 200 no-op tasks as one job": (
        "job_tasks_per_s.median",
        0,
        False,
        "/s",
        "split_1job_200.tasks_per_s",
    ),
    "P4 control plane alone, tasks": ("p4_tasks_per_s.median", 2000, False, "/s", "fake_500_1job_1000.tasks_per_s"),
    "P4 control plane alone, submits": ("p4_submits.per_s", 1000, False, "/s", "fake_500_200jobs.submit_rpc_per_s"),
    "P4 submits while each is executed": ("p4_submits_while_each_is_executed.per_s", 0, False, "/s", ""),
    "P9 container step / bare CRI calls": ("p9_container_step.containerd.step_over_bare", 1.1, True, "x", ""),
    "P9 container step / bare Docker calls": ("p9_container_step.docker.step_over_bare", 1.1, True, "x", ""),
    "P7 idle agent, both processes (PSS)": ("p7_idle_agent.pss_mib", 55, True, "MiB", "split_idle.worker.rss_mib"),
    "P7 idle agent, private to both": ("p7_idle_agent.private_mib", 24, True, "MiB", ""),
    "P7 idle agent, CPU": ("p7_idle_agent.cpu_percent", 0.1, True, "% of a core", "split_idle.worker.cpu_pct"),
}


def measure(quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "system": "hostler",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "floors": floors.measure(),
    }
    with bed() as house:
        result |= idle_agent.measure(house, seconds=5 if quick else 30)
        result |= latency.measure(house, rounds=20 if quick else 60)
        result |= throughput.measure(house, rounds=3 if quick else 7)
    result |= ceiling.measure(agents=100 if quick else 500, replicas=2, rounds=3 if quick else 5)
    return result | {"p9_container_step": container_step.measure_all(rounds=12 if quick else 30)}


def iris(quick: bool) -> dict[str, Any]:
    """Iris on the same work; it installs its own environment from the package index."""
    script = Path(os.environ.get("IRIS_BENCH", ROOT.parent / "shared" / "bench" / "iris_bench.py"))
    if not script.exists():
        return {"error": f"{script.name} is not beside the checkout; set IRIS_BENCH to its path"}
    arguments = [sys.executable, str(script), "--only", "latency,throughput,idle,fake", *(["--quick"] if quick else [])]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": f"the script ended with status {done.returncode} and no figures"}
    return answer


def value_at(result: Any, path: str) -> float | None:
    for name in path.split("."):
        if not isinstance(result, dict) or name not in result:
            return None
        result = result[name]
    return float(result)


def table(result: dict[str, Any]) -> str:
    lines = [f"{'figure':38} {'measured':>10} {'budget':>10}  {'':12} {'Iris':>10}"]
    for name, (path, budget, less, unit, iris_path) in ROWS.items():
        mine = value_at(result, path)
        theirs = value_at(result.get("iris", {}), iris_path) if iris_path else None
        if mine is None:
            continue
        met = ("met" if (mine <= budget if less else mine >= budget) else "MISSED") if budget else ""
        beside = f"{theirs:10.4g}" if theirs is not None else f"{'-':>10}"
        lines.append(f"{name:38} {mine:10.4g} {budget:10.4g}  {unit:12} {beside}  {met}")
    floor = result["floors"]
    lines.append(
        f"floors: spawn {floor['spawn_ms']['p50']} ms ({floor['spawn_all_cores']['per_s']}/s on all cores), "
        f"mTLS call {floor['mtls_call_ms']['p50']} ms, fdatasync {floor['fdatasync_ms']['p50']} ms"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The bench: every figure of the README in one run.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--iris", action="store_true", help="run Iris on the same work as well")
    options = parser.parse_args()
    result = measure(options.quick)
    if options.iris:
        result["iris"] = iris(options.quick)
    print(table(result), file=sys.stderr)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
