"""The floor of a container step in Docker: the very container of a step by bare calls, and nothing between them."""

import itertools
import time
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.containers.spec import ContainerSpec
from hostler.agent.host.docker_version import OLDEST


def bare(socket: Path, spec: ContainerSpec) -> dict[str, float]:
    """One container from nothing to nothing; seconds of each part. Its end is waited for, as the engine tells it."""
    from hostler.agent.containers import docker_spec
    from support.dockerd import Connection

    connection = Connection(socket)

    def call(method: str, path: str, body: Any = None) -> Any:
        data = msgspec.json.encode(body) if body is not None else None
        connection.request(method, f"/v{OLDEST}{path}", data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status < 300, said
        return msgspec.json.decode(said) if said else None

    call("GET", "/version")  # the connection is none of it
    body = docker_spec.body(spec)
    marks = [time.perf_counter()]
    container = call("POST", f"/containers/create?name={spec.name}", body)["Id"]
    marks.append(time.perf_counter())
    call("POST", f"/containers/{container}/start")
    marks.append(time.perf_counter())
    ended = call("POST", f"/containers/{container}/wait")
    assert ended["StatusCode"] == 0, ended
    marks.append(time.perf_counter())
    call("DELETE", f"/containers/{container}?force=1&v=1")
    marks.append(time.perf_counter())
    connection.close()
    parts = ("create", "start", "end", "remove")
    return dict(zip(parts, (b - a for a, b in itertools.pairwise(marks)), strict=True)) | {
        "to_end": marks[-2] - marks[0],
        "total": marks[-1] - marks[0],
    }
