"""`device.sanitize`: whole disks erased by one method, proved by reading them back (R1).

A disk that acknowledges and keeps its data fails the step by name; so does one that is hidden, used or does not
have the method. Nothing weaker is done in its place.
"""

import asyncio
import random
from typing import Any

from hostler.agent.host import erasure
from hostler.agent.host.block_devices import Disk
from hostler.agent.host.host import Host
from hostler.agent.host.nvme import sanitize as nvme_sanitize
from hostler.agent.steps.allocation import check_allocation, check_links, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.reclaim import DeviceSanitize

NVME = {"nvme_block": 2, "nvme_crypto": 4}  # what the specification calls the sanitize action


class DeviceSanitizeKind:
    name = "device.sanitize"

    async def plan(self, view: StepView) -> Plan:
        params: DeviceSanitize = view.params
        check_allocation(view)
        disks = await asyncio.to_thread(_disks, view.host, params)
        return Plan(
            tuple(
                Change(action="erase", target=disk.path, detail=f"{params.method}; serial {disk.serial or 'none'}",
                       bytes=disk.size_bytes)
                for disk in disks
            )
        )  # fmt: skip

    async def apply(self, context: StepContext) -> Outcome:
        params: DeviceSanitize = context.params
        check_allocation(context)
        check_links(context, params.after)
        disks = await asyncio.to_thread(_disks, context.host, params)  # all of them, before the first is touched
        erased = [await _sanitize(context, disk) for disk in disks]
        return Outcome(outputs=outputs(context, erased=erased, method=params.method))

    async def probe(self, view: StepView) -> Probe:
        """An erasure has no trace of its own beside what it proves: it is done again."""
        return Probe(truth=Truth.NOT_DONE, note="the disks are erased anew")


KIND = DeviceSanitizeKind()


def _disks(host: Host, params: DeviceSanitize) -> list[Disk]:
    """Raises `device_refused` for any of them."""
    found = []
    for named in params.devices:
        disk = host.block_devices.describe(named.path)
        if named.serial and disk.serial != named.serial:
            raise error("device_refused", f"{disk.path} has serial {disk.serial or 'none'}, not {named.serial}")
        if params.method in NVME and not disk.path.startswith("/dev/nvme"):
            raise error("sanitize_unsupported", f"{disk.path} is no NVMe drive, so it does not do {params.method}")
        host.block_devices.check_free(disk)
        found.append(disk)
    if len({disk.number for disk in found}) != len(found):
        raise error("device_refused", "a disk is named twice")
    return found


async def _sanitize(context: StepContext, disk: Disk) -> dict[str, Any]:
    method: str = context.params.method
    with context.host.block_devices.open(disk) as device:
        try:
            marks = await asyncio.to_thread(erasure.plant, device, disk.path, random.SystemRandom())
            if method in NVME:
                await nvme_sanitize(context.host, disk.path, NVME[method], context.deadline, context.cancelled)
            else:
                await asyncio.to_thread(erasure.erase, device, disk.path, method, _watch(context, "bytes"))
            zeros, watch = method not in NVME, _watch(context, "reads")
            proof = await asyncio.to_thread(erasure.prove, device, disk.path, marks, watch, zeros=zeros)
        except erasure.Interrupted as err:
            code = "canceled" if context.cancelled.is_set() else "timeout"
            raise error(code, f"{disk.path} was not erased to its end; it is neither clean nor usable") from err
    context.log("agent", f"{disk.path} reads back as erased: {proof.read_bytes} bytes in {proof.samples} samples")
    return {"path": disk.path, "serial": disk.serial, "model": disk.model, "method": method, **proof._asdict()}


def _watch(context: StepContext, unit: str) -> erasure.Step:
    """For a worker thread; progress is told on the loop."""
    loop = asyncio.get_running_loop()

    def step(done: int, total: int) -> None:
        if context.cancelled.is_set() or context.deadline.passed():
            raise erasure.Interrupted
        loop.call_soon_threadsafe(context.progress, done, total, unit)

    return step
