"""Tools that list devices: nvidia-smi, rocm-smi, amd-smi, xpu-smi, clinfo; one reader each.

Formats: `nvidia-smi --help-query-gpu` and its CSV; `rocm-smi --json`; `amd-smi static --json`;
`xpu-smi discovery -j` and `--dump`; `clinfo --json`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from hostler.agent.hardware.reports import Device, Unreadable, address, count, json_of, listing, mapping, rows_of, word

Devices = tuple[Device, ...]
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_ABSENT = frozenset({"", "N/A", "[N/A]", "[Not Supported]", "[Not Available]", "Not Supported"})
_ERRORS = "ecc.errors.uncorrected.volatile.total"
_SIZE = re.compile(r"([0-9]{1,12})(?:\.[0-9]{1,3})?(?: ?(MiB|MB|%))?")
_COMPUTES = frozenset({"CL_DEVICE_TYPE_GPU", "CL_DEVICE_TYPE_ACCELERATOR"})


def nvidia_smi(argv: Sequence[str], output: str) -> Devices:
    """CSV, one row a device; its columns are those that `--query-gpu` asked for."""
    options = dict(option.split("=", 1) for option in argv if option.startswith("--") and "=" in option)
    names = [_ALIASES.get(name.strip(), name.strip()) for name in options.get("--query-gpu", "").split(",")]
    form = options.get("--format", "").split(",")
    if names == [""] or "csv" not in form:
        raise Unreadable("nvidia-smi is read only with --query-gpu=... and --format=csv,...")
    if output.strip() == "No devices were found":
        return ()
    rows = rows_of(output)
    rows = rows if "noheader" in form else rows[1:]
    if any(len(row) != len(names) for row in rows):
        raise Unreadable(f"a row does not have the {len(names)} columns that were asked for")
    return tuple(_nvidia(number, dict(zip(names, row, strict=True))) for number, row in enumerate(rows))


def _nvidia(number: int, row: dict[str, str]) -> Device:
    """A value in brackets, or ERR!, that does not mean "not known here" means that the device does not answer."""
    cells = {name: "" if value.strip() in _ABSENT else word(value, name) for name, value in row.items()}
    faults = sorted({value for value in cells.values() if value.startswith(("[", "ERR!"))})
    cells = {name: "" if value in faults else value for name, value in cells.items()}
    return Device(
        index=cells.get("index") or str(number),
        name=cells.get("name", ""),
        uuid=cells.get("uuid", ""),
        pci=address(cells.get("pci.bus_id", "")),
        driver=cells.get("driver_version", ""),
        memory_bytes=_mebibytes(cells.get("memory.total", "")),
        uncorrected_errors=count(cells.get(_ERRORS, ""), _ERRORS),
        fault=", ".join(faults),
    )


def _mebibytes(text: str) -> int | None:
    if not text:
        return None
    match = _SIZE.fullmatch(text)
    if match is None or match[2] == "%":
        raise Unreadable(f"{text!r} is no amount of memory")
    return int(match[1]) * (1_000_000 if match[2] == "MB" else 1_048_576)


def rocm_smi(_argv: Sequence[str], output: str) -> Devices:
    """An object with a member `cardN` for each device and one for the whole system."""
    said = mapping(json_of(output), "the report")
    driver = word(mapping(said.get("system", {}), "system").get("Driver version", ""), "Driver version")
    cards = {name: mapping(card, name) for name, card in said.items() if re.fullmatch(r"card[0-9]{1,4}", name)}
    if set(said) - set(cards) - {"system"}:
        raise Unreadable(f"unknown member {min(set(said) - set(cards) - {'system'})[:64]!r}")
    return tuple(_rocm(name.removeprefix("card"), card, driver) for name, card in cards.items())


def _rocm(index: str, card: dict[str, Any], driver: str) -> Device:
    def first(*names: str) -> str:
        return next((word(card[name], name) for name in names if name in card), "")

    return Device(
        index=index,
        name=first("Card Series", "Card series", "Device Name"),
        uuid=first("Unique ID"),
        pci=address(first("PCI Bus")),
        driver=driver or first("Driver version"),
        memory_bytes=count(first("VRAM Total Memory (B)"), "VRAM Total Memory (B)"),
    )


def amd_smi(_argv: Sequence[str], output: str) -> Devices:
    """A list of devices; later versions put it under `gpu_data`."""
    said = json_of(output)
    if isinstance(said, dict):
        said = said.get("gpu_data")
    return tuple(_amd(mapping(one, "a device")) for one in listing(said, "gpu_data"))


def _amd(one: dict[str, Any]) -> Device:
    asic, bus, driver = (mapping(one.get(name, {}), name) for name in ("asic", "bus", "driver"))
    if "gpu" not in one:
        raise Unreadable("a device has no number")
    return Device(
        index=word(one["gpu"], "gpu"),
        name=word(asic.get("market_name", ""), "market_name"),
        uuid=word(asic.get("asic_serial", ""), "asic_serial"),
        pci=address(word(bus.get("bdf", ""), "bdf")),
        driver=word(driver.get("version", ""), "version"),
    )


def xpu_smi(argv: Sequence[str], output: str) -> Devices:
    """`discovery -j`, or the CSV of `discovery --dump`, whose first row names the columns."""
    if "--dump" in argv:
        rows = rows_of(output)
        named = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]] if rows else []
        if any(len(row) != len(rows[0]) for row in rows):
            raise Unreadable("a row has another number of columns than the first")
        keys = {"device_id": "Device ID", "device_name": "Device Name", "driver_version": "Driver Version"}
        keys |= {"pci_bdf_address": "PCI BDF Address", "uuid": "SOC UUID"}
        return tuple(_xpu({key: row[name] for key, name in keys.items() if name in row}) for row in named)
    said = mapping(json_of(output), "the report")
    if "error" in said:
        raise Unreadable(f"xpu-smi says: {word(said['error'], 'error')}")
    return tuple(_xpu(mapping(one, "a device")) for one in listing(said.get("device_list"), "device_list"))


def _xpu(one: dict[str, Any]) -> Device:
    if "device_id" not in one:
        raise Unreadable("a device has no number")
    state = word(one.get("device_state", ""), "device_state")
    return Device(
        index=word(one["device_id"], "device_id"),
        name=word(one.get("device_name", ""), "device_name"),
        uuid=word(one.get("uuid", ""), "uuid"),
        pci=address(word(one.get("pci_bdf_address", ""), "pci_bdf_address")),
        driver=word(one.get("driver_version", ""), "driver_version"),
        fault="" if state in ("", "Normal") else state,
    )


def clinfo(_argv: Sequence[str], output: str) -> Devices:
    """OpenCL devices that are GPUs or accelerators; a processor that computes for itself is none."""
    said = mapping(json_of(output), "the report")
    listing(said.get("platforms"), "platforms")
    found: list[Device] = []
    for platform in listing(said.get("devices", []), "devices"):
        for one in listing(mapping(platform, "a platform").get("online", []), "online"):
            kinds = mapping(mapping(one, "a device").get("CL_DEVICE_TYPE"), "CL_DEVICE_TYPE").get("type")
            if _COMPUTES & {word(kind, "type") for kind in listing(kinds, "type")}:
                found.append(_opencl(str(len(found)), one))
    return tuple(found)


def _opencl(index: str, one: dict[str, Any]) -> Device:
    return Device(
        index=index,
        name=word(one.get("CL_DEVICE_NAME", ""), "CL_DEVICE_NAME"),
        driver=word(one.get("CL_DRIVER_VERSION", ""), "CL_DRIVER_VERSION"),
        fault="" if one.get("CL_DEVICE_AVAILABLE", True) is True else "not available",
    )


READERS: dict[str, Callable[[Sequence[str], str], Devices]] = {
    "nvidia-smi": nvidia_smi,
    "rocm-smi": rocm_smi,
    "amd-smi": amd_smi,
    "xpu-smi": xpu_smi,
    "clinfo": clinfo,
}
# What an exit code says, where the program's manual says it (nvidia-smi(1), RETURN VALUE).
EXIT_CODES: dict[str, dict[int, str]] = {
    "nvidia-smi": {
        4: "no permission for a device",
        6: "a device was not found",
        8: "a device lacks external power",
        9: "the driver is not loaded",
        10: "the kernel has an interrupt problem with a device",
        12: "the NVML library is not there",
        14: "a device's infoROM is corrupted",
        15: "a device is lost, it has fallen off the bus",
    },
}
