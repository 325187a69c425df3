"""`gpu.container_runtime.check`: containers can be given this node's devices (SK-17)."""

from typing import Any

from hostler.agent.hardware.container_tools import READERS
from hostler.agent.hardware.reports import Exposed
from hostler.agent.steps.gpu_check import GpuCheck, Node, enough
from hostler.base.errors import error
from hostler.catalog.params.gpu import ContainerRuntimeCheck


def judge(params: ContainerRuntimeCheck, exposed: Exposed, node: Node) -> dict[str, Any]:
    """Raises `no_device`, `runtime_missing`."""
    known = node.gpus.count if exposed.devices is None else exposed.devices
    enough(known, params.minimum_devices, node, every=False, what="can be handed to containers")
    if not exposed.names:
        raise error("runtime_missing", "the container runtime has no handler for devices, and takes no CDI devices")
    if node.container_runtime == "other":
        raise error("runtime_missing", "there is neither containerd nor Docker on this node")
    return {"devices": known, "names": list(exposed.names), "container_runtime": node.container_runtime}


KIND: GpuCheck[Exposed] = GpuCheck("gpu.container_runtime.check", READERS, judge)
