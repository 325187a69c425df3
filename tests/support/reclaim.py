"""Runs one of the reclaim kinds as the agent of a machine would: below its root, in its name spaces.

As a program: `python -m support.reclaim` with a request on standard input; `in_machine` starts it that way.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.host.host import Host
from hostler.agent.journal.rows import PastStep
from hostler.agent.steps.table import step_kind
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.kinds import KINDS
from support.machines import Machine
from support.steps import Told, context_of

TESTS = Path(__file__).resolve().parents[1]


def past_step(kind: str, number: int = 1, type_: str = "allocation.runtime.provision", **more: Any) -> PastStep:
    """A step that ended here before, as the journal would tell."""
    values: dict[str, Any] = {
        "number": number, "operation_type": f"{type_}@v1", "operation_id": f"op_{number}", "task_id": f"tsk_{type_}",
        "attempt_number": 1, "step_id": kind, "kind": kind, "state": "succeeded", "task_state": "succeeded",
        "outputs_json": b"{}", "chain_index": number, "receipt_digest": f"{number:064}", "finished_ms": number,
    }  # fmt: skip
    return PastStep(**(values | more))


def baseline_past(outputs: dict[str, Any]) -> tuple[PastStep, ...]:
    return (past_step("baseline.take", outputs_json=msgspec.json.encode(outputs)),)


async def run(host: Host, kind: str, params: dict[str, Any], past: tuple[PastStep, ...] = ()) -> dict[str, Any]:
    """What came of it: outputs or error, the log, how long it took."""
    told = Told()
    context = context_of(convert(params, KINDS[kind].params), host, told, past=past, deadline_s=60)
    started = time.monotonic()
    answer: dict[str, Any] = {"error": "", "message": "", "outputs": {}}
    try:
        answer["outputs"] = (await step_kind(kind).apply(context)).outputs
    except HostlerError as err:
        answer |= {"error": err.code, "message": err.message}
    finally:
        await host.close()
    return answer | {"lines": told.lines, "seconds": time.monotonic() - started}


def in_machine(machine: Machine, folder: Path, kind: str, **request: Any) -> dict[str, Any]:
    """In the machine's network and IPC name spaces; files and processes below its root."""
    body = {"root": str(machine.root), "folder": str(folder), "kind": kind, **request}
    enter = ["nsenter", "-t", str(machine.leader), "-n", "-i", "--"]
    done = subprocess.run(
        [*enter, sys.executable, "-m", "support.reclaim"], input=json.dumps(body), capture_output=True, text=True,
        check=False, timeout=100, env=dict(os.environ) | {"PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> None:
    request = json.loads(sys.stdin.read())
    folder = Path(request["folder"])
    host = Host(root=Path(request["root"]), spool=folder / "spool", allocations=folder / "allocations")
    past = baseline_past(request["baseline"]) if "baseline" in request else ()
    print(json.dumps(asyncio.run(run(host, request["kind"], request["params"], past))))


if __name__ == "__main__":
    main()
