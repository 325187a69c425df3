"""Judging a list of devices: those that answer, those that do not, drivers and faults. Pure."""

import re
from typing import Any

from hostler.agent.hardware.reports import Device
from hostler.agent.steps.gpu_check import Node, enough
from hostler.base.errors import error
from hostler.catalog.params.gpu import DriverValidate, RuntimeCheck

Devices = tuple[Device, ...]


def judged(params: DriverValidate | RuntimeCheck, devices: Devices, node: Node) -> dict[str, Any]:
    """What both device kinds require.

    Raises:
        HostlerError: `device_unhealthy`, `no_device`, `driver_mismatch`, each naming the device.
    """
    for device in devices:
        if device.fault:
            raise error("device_unhealthy", f"{device.shown()} does not answer: {device.fault}")
    if params.every_device:
        _none_silent(devices, node)
    enough(len(devices), params.minimum_devices, node, every=params.every_device, what="answer")
    for device in devices:
        _driver(params, device)
    return {"devices": [_plain(device) for device in devices], "driver": _one(devices)}


def _none_silent(devices: Devices, node: Node) -> None:
    """A tool that tells addresses has to tell each that the bus has."""
    told = {device.pci for device in devices if device.pci}
    silent = [address for address in node.addresses if address not in told]
    if told and silent:
        raise error("device_unhealthy", f"the device at {silent[0]} is on the PCI bus and does not answer")


def _driver(params: DriverValidate | RuntimeCheck, device: Device) -> None:
    if not (params.driver_series or params.minimum_driver):
        return
    have = numbers(device.driver)
    if not have:
        raise error("driver_mismatch", f"{device.shown()} does not tell the version of its driver")
    wanted = numbers(params.driver_series)
    if wanted and have[: len(wanted)] != wanted:
        message = f"{device.shown()} has driver {device.driver}, not of series {params.driver_series}"
        raise error("driver_mismatch", message)
    if have < numbers(params.minimum_driver):
        message = f"{device.shown()} has driver {device.driver}, older than {params.minimum_driver}"
        raise error("driver_mismatch", message)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; none where it has no such form."""
    match = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,5}", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _one(devices: Devices) -> str:
    """The driver's version if all agree."""
    told = {device.driver for device in devices}
    return told.pop() if len(told) == 1 else ""


def _plain(device: Device) -> dict[str, Any]:
    """As an output that a later step may bind; only what the tool said."""
    told = {
        "index": device.index,
        "name": device.name,
        "uuid": device.uuid,
        "pci": device.pci,
        "driver": device.driver,
        "memory_bytes": device.memory_bytes,
        "uncorrected_errors": device.uncorrected_errors,
    }
    return {name: value for name, value in told.items() if value not in ("", None)}
