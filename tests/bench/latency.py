"""P1 and P2: submit → the step's process starts, and submit → the client sees it finished.

`python -m tests.bench.latency` prints JSON. t0 is the clock before the submit call is made; the start is
what `date` printed, run by the step itself; the end is seen by the same client, following by server-sent events
and, as Iris's bench does, polling every 10 ms.
"""

import json
import time
from typing import Any

from support.house import FINAL, PATH, House

from .bed import NODE, bed
from .floors import spread


def submit(house: House, ref: str, replicas: int = 1) -> str:
    return house.submit(ref, nodes=(NODE,), replicas=replicas)


def follow(house: House, operation_id: str) -> None:
    """Returns when the server says that the operation has ended."""
    for _ in house.client.events(f"{PATH}/{operation_id}/events"):
        continue


def poll(house: House, operation_id: str) -> None:
    while house.client.call("GET", f"{PATH}/{operation_id}")["status"] not in FINAL:
        time.sleep(0.01)


def started(house: House) -> tuple[float, float]:
    """Seconds from the submit to the process, and the length of the submit call itself."""
    t0 = time.time()
    operation_id = submit(house, "bench.stamp@v1")
    returned = time.time()
    follow(house, operation_id)
    step = house.client.call("GET", f"{PATH}/{operation_id}")["tasks"][0]["steps"][0]
    assert step["status"] == "succeeded", step
    return float(step["outputs"]["stdout"]) - t0, returned - t0


def finished(house: House, wait: Any) -> float:
    t0 = time.perf_counter()
    wait(house, submit(house, "node.smoke.noop@v1"))
    return time.perf_counter() - t0


def measure(house: House, rounds: int = 60) -> dict[str, Any]:
    for _ in range(5):
        started(house)
    starts = [started(house) for _ in range(rounds)]
    return {
        "p1_submit_to_process_start_ms": spread([start for start, _ in starts]),
        "submit_call_ms": spread([call for _, call in starts]),
        "p2_submit_to_seen_finished_ms": spread([finished(house, follow) for _ in range(rounds)]),
        "p2_polling_every_10_ms": spread([finished(house, poll) for _ in range(rounds)]),
    }


if __name__ == "__main__":
    with bed() as house:
        print(json.dumps(measure(house), indent=2))
