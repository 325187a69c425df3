"""P9: a job's task in a container, from its submit to its end, over the same container by bare calls.

`python -m tests.bench.container_step [rounds]` starts a containerd and a registry of its own, a control plane and an
agent, and does the same work both ways in turn. Prints medians in milliseconds and their ratio, as JSON. The task is a
job of one replica in the node's network; its image is in the store after the first round, which is not counted.
"""

import json
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
SETTINGS = """
runtime = "containerd"
containerd_socket = "{daemon.socket}"
log_dir = "{daemon.place}/logs"
allow_host_network = true
"""
COMMAND = ["/bin/busybox", "true"]


def step(house: Any, image: str) -> tuple[float, float]:
    """Milliseconds from the submit to the end that a client sees, and of the container's step on its node."""
    from support.house import PATH, PROJECT

    body = {
        "name": f"step-{secrets.token_hex(4)}",
        "image": image,
        "command": COMMAND,
        "network": "host",
        "resources": {"cpu_millis": 10, "memory_bytes": 0},
        "idempotency_key": secrets.token_hex(8),
    }
    begun = time.perf_counter()
    job_id = house.client.call("POST", f"/api/v1/projects/{PROJECT}/jobs", body=body)["job_id"]
    for _ in house.client.events(f"{PATH}/{job_id}/events"):
        pass
    took = time.perf_counter() - begun
    ended = house.operation(job_id)
    assert ended["status"] == "succeeded", ended["error_message"]
    (task,) = ended["tasks"]
    return took * 1000, float(task["finished_at_ms"] - task["started_at_ms"])


def measure(rounds: int) -> dict[str, Any]:
    from bench.bare_cri import bare

    from support import containerd as support
    from support.busybox import busybox_layer
    from support.certs import make_server_certs
    from support.house import open_house
    from support.registry import registry

    whole, steps, floor = [], [], []
    with tempfile.TemporaryDirectory() as folder, support.containerd() as daemon:
        certs = make_server_certs(Path(folder))
        with registry(Path(folder), certs) as store, open_house() as house:
            daemon.trust(store.name, certs.ca)
            image = f"{store.name}/team/task@{store.image('team/task', busybox_layer())}"
            house.serve()
            house.enrol("a")
            house.configure("a", containers=SETTINGS.format(daemon=daemon), root="/", ca_file=certs.ca)
            house.start("a")
            step(house, image)
            for _ in range(rounds):
                floor.append(bare(daemon.socket, support.IMAGE, daemon.place / "logs")["total"] * 1000)
                took, alone = step(house, image)
                whole.append(took)
                steps.append(alone)
    bare_ms, step_ms, whole_ms = (statistics.median(each) for each in (floor, steps, whole))
    return {
        "bare_ms": round(bare_ms, 1),
        "step_ms": round(step_ms, 1),
        "submit_to_end_ms": round(whole_ms, 1),
        "step_over_bare": round(step_ms / bare_ms, 2),
        "submit_to_end_over_bare": round(whole_ms / bare_ms, 2),
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
