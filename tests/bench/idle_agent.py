"""P7: what an idle agent, its two processes, costs with its stream open: memory and CPU.

`python -m tests.bench.idle_agent [SECONDS]` prints JSON. The floor is a bare grpc.aio client that imports nothing
of ours and holds one stream open over the same TLS.
"""

import json
import sys
import time
from typing import Any

import psutil

from support.house import House

from .bed import NODE, bed


def both(pid: int, seconds: float) -> dict[str, Any]:
    """The runner and its session process, and what they take together: shared pages counted once (PSS)."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children()]
    costs = [cost(process, seconds / len(processes)) for process in processes]
    return {
        "pss_mib": round(sum(process.memory_full_info().pss for process in processes) / 2**20, 1),
        "private_mib": round(sum(each["private_mib"] for each in costs), 1),
        "cpu_percent": round(sum(each["cpu_percent"] for each in costs), 3),
        **dict(zip(("runner", "session"), costs, strict=False)),
    }


def cost(process: psutil.Process, seconds: float) -> dict[str, float]:
    time.sleep(2)
    before, t0 = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    used = sum(process.cpu_times()[:2]) - before
    memory = process.memory_full_info()
    return {
        "rss_mib": round(memory.rss / 2**20, 1),
        "private_mib": round(memory.uss / 2**20, 1),
        "cpu_percent": round(100 * used / (time.monotonic() - t0), 3),
    }


def measure(house: House, seconds: float = 30) -> dict[str, Any]:
    """Of an agent that has taken no task since its start, and of its control plane."""
    return {"p7_idle_agent": both(house.pids[NODE], seconds), "seconds": seconds}


if __name__ == "__main__":
    with bed() as house:
        print(json.dumps(measure(house, float(sys.argv[1]) if len(sys.argv) > 1 else 30), indent=2))
