"""The floor of a container step: the very sandbox and container of a step by bare calls, and nothing between them.

`python -m tests.bench.bare_cri [rounds] [millicores]` starts a containerd of its own and prints medians in
milliseconds, as JSON; and what the runtime of `hostler.agent.containers.containerd` takes for the same.
"""

import asyncio
import dataclasses
import itertools
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from hostler.agent.containers.spec import Bind, ContainerSpec, Limits  # noqa: E402 - behind the path
from hostler.agent.steps.container_spec_of import CAPABILITIES  # noqa: E402

COMMAND = ("/bin/busybox", "true")
CPU_MILLIS, MEMORY, PIDS = 1000, 256 << 20, 4096
_numbers = itertools.count(1)


def spec_like(image: str, place: Path, cpu_millis: int = CPU_MILLIS) -> ContainerSpec:
    """What a step asks a runtime for: the same limits, walls and binds, under a name of its own."""
    name = f"bare-{os.getpid()}-{next(_numbers)}"
    binds = []
    for target, read_only in (("/run/hostler", True), ("/scratch", False)):
        source = place / name / target.rpartition("/")[2]
        source.mkdir(parents=True)
        binds.append(Bind(str(source), target, read_only))
    return ContainerSpec(
        name=name,
        image=image,
        command=COMMAND,
        environment={f"HOSTLER_{number}": "x" * 24 for number in range(16)},
        labels={f"hostler.label-{number}": "x" * 24 for number in range(12)},
        limits=Limits(cpu_millis, MEMORY, 64 << 20, PIDS),
        binds=tuple(binds),
        host_network=True,
        capabilities=CAPABILITIES,
    )


def bare(socket: Path, spec: ContainerSpec, log_dir: Path) -> dict[str, float]:
    """One container from nothing to nothing; seconds of each part. Its end is polled for, every 2 ms."""
    import grpc

    from hostler.agent.containers import cri_spec, groups
    from hostler.cri.v1 import api_pb2 as cri
    from hostler.cri.v1.api_pb2_grpc import RuntimeServiceStub

    channel = grpc.insecure_channel(f"unix://{socket}")
    runtime = RuntimeServiceStub(channel)
    runtime.Version(cri.VersionRequest())  # the connection is none of it
    sandbox = cri_spec.sandbox_config(spec, log_dir)
    config = cri_spec.container_config(spec, unified=groups.unified())
    Path(sandbox.log_directory).mkdir(parents=True)
    marks = [time.perf_counter()]
    pod = runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox)).pod_sandbox_id
    marks.append(time.perf_counter())
    request = cri.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=sandbox)
    container = runtime.CreateContainer(request).container_id
    marks.append(time.perf_counter())
    runtime.StartContainer(cri.StartContainerRequest(container_id=container))
    marks.append(time.perf_counter())
    asked = cri.ContainerStatusRequest(container_id=container)
    while runtime.ContainerStatus(asked).status.state != cri.CONTAINER_EXITED:
        time.sleep(0.002)
    marks.append(time.perf_counter())
    runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=10))
    runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    marks.append(time.perf_counter())
    channel.close()
    parts = ("sandbox", "create", "start", "end", "remove")
    return dict(zip(parts, (b - a for a, b in itertools.pairwise(marks)), strict=True)) | {
        "to_end": marks[-2] - marks[0],
        "total": marks[-1] - marks[0],
    }


def main(rounds: int = 20, cpu_millis: int = CPU_MILLIS) -> None:
    from hostler.agent.containers.containerd import Containerd
    from support import containerd as support
    from support.runtimes import Bed

    async def ours(socket: Path, place: Path) -> list[float]:
        runtime = Containerd(socket, place / "logs", place / "run", place / "shm")
        bed, took = Bed(runtime, support.IMAGE), []
        await runtime.available()
        for _ in range(rounds):
            asked = dataclasses.asdict(spec_like(support.IMAGE, place / "binds", cpu_millis))
            spec = {key: asked[key] for key in ("environment", "capabilities")}
            begun = time.perf_counter()
            await bed.run("", command=COMMAND, limits=Limits(cpu_millis, MEMORY, 64 << 20, PIDS), **spec)
            took.append(time.perf_counter() - begun)
        await runtime.close()
        return took

    with support.containerd() as daemon:
        floor = [
            bare(daemon.socket, spec_like(support.IMAGE, daemon.place / "binds", cpu_millis), daemon.place / "logs")
            for _ in range(rounds)
        ]
        took = asyncio.run(ours(daemon.socket, daemon.place))
    medians = {part: round(statistics.median(each[part] for each in floor) * 1000, 1) for part in floor[0]}
    print(json.dumps({"bare_ms": medians, "runtime_total_ms": round(statistics.median(took) * 1000, 1)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
