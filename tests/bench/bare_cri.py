"""The floor of a container step: the same sandbox, container, end and removal by bare calls, and nothing between them.

`python -m tests.bench.bare_cri` starts a containerd of its own and prints medians in milliseconds, as JSON.
"""

import asyncio
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
_numbers = itertools.count(1)


def bare(
    socket: Path, image: str, log_dir: Path, command: tuple[str, ...] = ("/bin/busybox", "true")
) -> dict[str, float]:
    """One container in the node's network from nothing to nothing; seconds of each part. Its end is polled for."""
    import grpc

    from hostler.cri.v1 import api_pb2 as cri
    from hostler.cri.v1.api_pb2_grpc import RuntimeServiceStub

    channel = grpc.insecure_channel(f"unix://{socket}")
    runtime = RuntimeServiceStub(channel)
    runtime.Version(cri.VersionRequest())  # the connection is none of it
    name = f"bare{next(_numbers)}"
    (log_dir / name).mkdir(parents=True, exist_ok=True)
    network = cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER)
    default = cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault)
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=name, namespace="bare"),
        log_directory=str(log_dir / name),
        linux=cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=network, seccomp=default)
        ),
    )
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="task"),
        image=cri.ImageSpec(image=image),
        command=command,
        log_path="task.log",
        linux=cri.LinuxContainerConfig(
            security_context=cri.LinuxContainerSecurityContext(
                namespace_options=network,
                seccomp=default,
                no_new_privs=True,
                capabilities=cri.Capability(drop_capabilities=["ALL"]),
            )
        ),
    )
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
    runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    marks.append(time.perf_counter())
    channel.close()
    parts = ("sandbox", "create", "start", "end", "remove")
    return dict(zip(parts, (b - a for a, b in itertools.pairwise(marks)), strict=True)) | {
        "total": marks[-1] - marks[0]
    }


def main(rounds: int = 20) -> None:
    from hostler.agent.containers.containerd import Containerd
    from support import containerd as support
    from support.runtimes import Bed

    async def ours(socket: Path, place: Path) -> list[float]:
        runtime = Containerd(socket, place / "logs", place / "run", place / "shm")
        bed, took = Bed(runtime, support.IMAGE), []
        await runtime.available()
        for _ in range(rounds):
            begun = time.perf_counter()
            await bed.run("", command=("/bin/busybox", "true"))
            took.append(time.perf_counter() - begun)
        await runtime.close()
        return took

    with support.containerd() as daemon:
        floor = [bare(daemon.socket, support.IMAGE, daemon.place / "logs") for _ in range(rounds)]
        took = asyncio.run(ours(daemon.socket, daemon.place))
    medians = {part: round(statistics.median(each[part] for each in floor) * 1000, 1) for part in floor[0]}
    print(json.dumps({"bare_ms": medians, "runtime_total_ms": round(statistics.median(took) * 1000, 1)}))


if __name__ == "__main__":
    main()
