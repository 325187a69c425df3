"""P3: one operation of 200 no-op tasks on one agent, and one job of 200: full journal, signed receipts.

`python -m tests.bench.throughput` prints JSON. t0 is before the submit; the end is when the client sees the
operation ended.
"""

import json
import secrets
import time
from typing import Any

from support.house import FINAL, PROJECT, House

from .bed import bed
from .latency import follow, submit


def one_operation(house: House, tasks: int) -> float:
    t0 = time.perf_counter()
    operation_id = submit(house, "node.smoke.noop@v1", replicas=tasks)
    follow(house, operation_id)
    took = time.perf_counter() - t0
    ended = house.operation(operation_id)
    assert ended["status"] in FINAL
    assert ended["tasks_succeeded"] == tasks, ended["error_message"]
    return tasks / took


def one_job(house: House, tasks: int) -> float:
    """The same work as one job in the process runtime; the scheduler places as many at once as have room."""
    body = {
        "name": f"bench-{secrets.token_hex(4)}",
        "command": ["/bin/true"],
        "replicas": tasks,
        "resources": {"cpu_millis": 1, "memory_bytes": 0},
        "idempotency_key": secrets.token_hex(8),
    }
    t0 = time.perf_counter()
    job_id = house.client.call("POST", f"/api/v1/projects/{PROJECT}/jobs", body=body)["job_id"]
    follow(house, job_id)
    took = time.perf_counter() - t0
    ended = house.operation(job_id)
    assert ended["tasks_succeeded"] == tasks, ended["error_message"]
    return tasks / took


def measure(house: House, tasks: int = 200, rounds: int = 7) -> dict[str, Any]:
    one_operation(house, tasks)
    rates = sorted(one_operation(house, tasks) for _ in range(rounds))
    jobs = sorted(one_job(house, tasks) for _ in range(3))
    return {
        "p3_tasks_per_s": {"median": round(rates[len(rates) // 2]), "min": round(rates[0]), "max": round(rates[-1])},
        "job_tasks_per_s": {"median": round(jobs[len(jobs) // 2]), "min": round(jobs[0]), "max": round(jobs[-1])},
    }


if __name__ == "__main__":
    with bed() as house:
        print(json.dumps(measure(house), indent=2))
