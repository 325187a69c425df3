"""`gpu.fabric.verify`: a collective test over the devices, right and fast enough (SK-16)."""

from typing import Any

from hostler.agent.hardware.collective_tools import READERS
from hostler.agent.hardware.reports import Collective
from hostler.agent.steps.gpu_check import GpuCheck, Node, enough
from hostler.base.errors import error
from hostler.catalog.params.gpu import FabricVerify


def judge(params: FabricVerify, test: Collective, node: Node) -> dict[str, Any]:
    """Raises `no_device`, `device_unhealthy`, `bandwidth_low`."""
    enough(test.ranks, params.minimum_devices, node, every=params.every_device, what="took part")
    if test.wrong:
        raise error("bandwidth_low", f"the collective test over {test.ranks} devices gave {test.wrong} wrong values")
    if test.bus_bandwidth < params.minimum_bus_bandwidth:
        reached = f"{test.bus_bandwidth:g} GB/s on the bus between {test.ranks} devices"
        raise error("bandwidth_low", f"{reached}, at least {params.minimum_bus_bandwidth:g} GB/s are required")
    return {"ranks": test.ranks, "sizes": test.rows, "bus_bandwidth": test.bus_bandwidth}


KIND: GpuCheck[Collective] = GpuCheck("gpu.fabric.verify", READERS, judge)
