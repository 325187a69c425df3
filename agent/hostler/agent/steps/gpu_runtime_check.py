"""`gpu.runtime.check`: devices, driver and compute runtime fit, and no device reports a fault (SK-10)."""

from typing import Any

from hostler.agent.hardware.device_tools import READERS
from hostler.agent.hardware.reports import Device
from hostler.agent.steps.gpu_check import GpuCheck, Node
from hostler.agent.steps.gpu_devices import Devices, judged
from hostler.base.errors import error
from hostler.catalog.params.gpu import RuntimeCheck


def judge(params: RuntimeCheck, devices: Devices, node: Node) -> dict[str, Any]:
    """Raises as `judged`, and `runtime_missing`."""
    found = judged(params, devices, node)
    for device in devices:
        _healthy(params, device)
    if params.compute_runtime and node.compute_runtime == "none":
        message = f"no compute runtime for {node.gpus.vendor} devices is on this node"
        raise error("runtime_missing", message)
    return found | {"compute_runtime": node.compute_runtime}


def _healthy(params: RuntimeCheck, device: Device) -> None:
    if (device.uncorrected_errors or 0) > params.maximum_uncorrected_errors:
        counted = f"{device.uncorrected_errors} uncorrected memory errors"
        message = f"{device.shown()} has {counted}, at most {params.maximum_uncorrected_errors} are allowed"
        raise error("device_unhealthy", message)
    if not params.minimum_memory_bytes:
        return
    if device.memory_bytes is None or device.memory_bytes < params.minimum_memory_bytes:
        has = "does not tell its memory" if device.memory_bytes is None else f"has {device.memory_bytes} bytes"
        message = f"{device.shown()} {has}, at least {params.minimum_memory_bytes} bytes are needed"
        raise error("device_unhealthy", message)


KIND: GpuCheck[Devices] = GpuCheck("gpu.runtime.check", READERS, judge)
