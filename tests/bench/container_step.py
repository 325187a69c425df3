"""P9: a container step over the bare calls that it consists of, in containerd and in Docker.

`python -m tests.bench.container_step [rounds] [containerd|docker]` starts engines and a registry of its own, a control
plane and an agent, and does the same work both ways in turn, so that both meet the same machine. The work is a task of
one replica in the node's network, whose image is in the engine's store after the first round, which is not counted.
Both sides ask for the same container: image, command, limits, walls, binds. The bare calls poll CRI for the end; the
step takes a success from the container's shim, who knows of it some milliseconds before CRI does.

Prints milliseconds and ratios as JSON. `step_over_bare` is the figure of the budget: the step on its node, from its
start to its end that is on disk with its receipt, over the bare calls from nothing to the end of the container. Both
moments are when the control plane has heard of them; it works on the same machine meanwhile, as do the registry and
the client, and none of them for the bare calls: with few cores that counts against the step. The step asks the registry
whether this task may have the image (A7); the bare calls do not. What is left of a task is removed once its end is
durable, so removal stands apart: `gone_over_bare` is from the submit until nothing is left, over the bare calls with
theirs. Each ratio is the median over rounds of one round's, as the machine's pace changes.
"""

import json
import os
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .bare_cri import COMMAND, CPU_MILLIS, MEMORY, PIDS, spec_like

GONE_S = 20.0


@dataclass
class Engine:
    """Attributes:
    settings: of the agent, so that it uses this one.
    bare: seconds of each part of one container by bare calls.
    left: whether anything of a step is still there.
    """

    settings: str
    bare: Callable[[str], dict[str, float]]
    left: Callable[[], bool]
    trust: Callable[[str, Path], None]


@contextmanager
def containerd() -> Iterator[Engine]:
    import grpc

    from hostler.cri.v1 import api_pb2 as cri
    from hostler.cri.v1.api_pb2_grpc import RuntimeServiceStub
    from support import containerd as support

    from . import bare_cri

    with support.containerd() as daemon:
        settings = f'containerd_socket = "{daemon.socket}"\nlog_dir = "{daemon.place}/logs"\n'
        with grpc.insecure_channel(f"unix://{daemon.socket}") as channel:
            runtime = RuntimeServiceStub(channel)
            yield Engine(
                settings,
                lambda image: bare_cri.bare(
                    daemon.socket, spec_like(image, daemon.place / "binds"), daemon.place / "bare-logs"
                ),
                lambda: bool(runtime.ListPodSandbox(cri.ListPodSandboxRequest()).items),
                daemon.trust,
            )


@contextmanager
def docker() -> Iterator[Engine]:
    from support import dockerd as support

    from . import bare_docker

    with support.dockerd() as daemon:

        def left() -> bool:
            connection = support.Connection(daemon.socket)
            connection.request("GET", "/containers/json?all=1")
            said = connection.getresponse().read()
            connection.close()
            return bool(json.loads(said))

        yield Engine(
            f'docker_socket = "{daemon.socket}"\n',
            lambda image: bare_docker.bare(daemon.socket, spec_like(image, daemon.place / "binds")),
            left,
            lambda registry, ca: None,  # one on loopback needs none
        )


ENGINES = {"containerd": containerd, "docker": docker}
PROGRAMS = {
    "containerd": ("containerd", "runc", "docker-registry"),
    "docker": ("dockerd", "containerd", "runc", "docker-registry"),
}


def step(house: Any, image: str, engine: Engine) -> dict[str, float]:
    """Seconds: of the step on its node, from the submit to the end that a client sees, and until nothing is left."""
    from support.house import PATH, PROJECT

    body = {
        "name": f"step-{secrets.token_hex(4)}",
        "image": image,
        "command": list(COMMAND),
        "network": "host",
        "resources": {"cpu_millis": CPU_MILLIS, "memory_bytes": MEMORY, "pids": PIDS},
        "idempotency_key": secrets.token_hex(8),
    }
    begun = time.perf_counter()
    job_id = house.client.call("POST", f"/api/v1/projects/{PROJECT}/jobs", body=body)["job_id"]
    for _ in house.client.events(f"{PATH}/{job_id}/events"):
        pass
    seen = time.perf_counter()
    while engine.left():
        assert time.perf_counter() - seen < GONE_S, house.logs()
        time.sleep(0.002)
    gone = time.perf_counter()
    ended = house.operation(job_id)
    assert ended["status"] == "succeeded", ended["error_message"]
    (task,) = ended["tasks"]
    took = (task["finished_at_ms"] - task["started_at_ms"]) / 1000
    return {"step": took, "submit_to_end": seen - begun, "submit_to_gone": gone - begun}


def rounds_of(name: str, rounds: int) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """Of each round what the bare calls took, and what the step did."""
    from support.busybox import busybox_layer
    from support.certs import make_server_certs
    from support.house import open_house
    from support.registry import registry

    with tempfile.TemporaryDirectory() as folder, ENGINES[name]() as engine:
        certs = make_server_certs(Path(folder))
        with registry(Path(folder), certs) as store, open_house() as house:
            engine.trust(store.name, certs.ca)
            image = f"{store.name}/team/task@{store.image('team/task', busybox_layer())}"
            settings = f'runtime = "{name}"\nallow_host_network = true\n{engine.settings}'
            house.serve()
            house.enrol("a")
            house.configure("a", containers=settings, root="/", ca_file=certs.ca)
            house.start("a")
            step(house, image, engine)
            for number in range(rounds):
                if number % 2:
                    first = engine.bare(image)
                    yield first, step(house, image, engine)
                else:
                    second = step(house, image, engine)
                    yield engine.bare(image), second


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Medians of one engine."""
    bare, ours = zip(*rounds_of(name, rounds), strict=True)

    def over(part: str, floor: str) -> float:
        return round(statistics.median(o[part] / b[floor] for o, b in zip(ours, bare, strict=True)), 2)

    return {
        "rounds": rounds,
        "bare_ms": {part: _ms(bare, part) for part in bare[0]},
        "step_ms": _ms(ours, "step"),
        "submit_to_end_ms": _ms(ours, "submit_to_end"),
        "submit_to_gone_ms": _ms(ours, "submit_to_gone"),
        "step_over_bare": over("step", "to_end"),
        "submit_to_end_over_bare": over("submit_to_end", "to_end"),
        "gone_over_bare": over("submit_to_gone", "total"),
    }


def measure_all(rounds: int) -> dict[str, Any]:
    """Of every engine that this machine has, as root."""
    found = {name for name in ENGINES if os.geteuid() == 0 and all(map(shutil.which, PROGRAMS[name]))}
    return {name: measure(name, rounds) for name in sorted(found)}


def _ms(rounds: tuple[dict[str, float], ...], part: str) -> float:
    return round(statistics.median(each[part] for each in rounds) * 1000, 1)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(json.dumps({name: measure(name, count) for name in sys.argv[2:]} or measure_all(count)))
