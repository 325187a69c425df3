"""Parameters of the hardware-abstract kinds: what devices must show, whoever made them (SK-10, SK-15..17)."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Version = Annotated[str, msgspec.Meta(pattern=r"^([0-9]{1,5}([.][0-9]{1,5}){0,3})?$(?!\n)")]


class DriverValidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The devices' driver is loaded, answers for every device, and is the expected one.

    The node resolves the kind to a command profile by its hardware; a node without a device fails.

    Attributes:
        minimum_devices: how many have to answer.
        every_device: each device of that vendor which the PCI bus shows has to answer too.
        driver_series: leading numbers of the driver's version, such as `535` or `535.161`; "" takes any.
        minimum_driver: lowest version, compared number by number; "" takes any.
    """

    minimum_devices: Count = 1
    every_device: bool = True
    driver_series: Version = ""
    minimum_driver: Version = ""


class RuntimeCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Devices, driver and compute runtime fit together, and no device reports a fault.

    Attributes:
        minimum_devices: how many have to answer.
        every_device: each device of that vendor which the PCI bus shows has to answer too.
        driver_series: leading numbers of the driver's version; "" takes any.
        minimum_driver: lowest version, as a toolkit's release notes name it; "" takes any.
        minimum_memory_bytes: of each device.
        maximum_uncorrected_errors: memory errors of each device since its driver was loaded.
        compute_runtime: the node's own library for its devices has to be there.
    """

    minimum_devices: Count = 1
    every_device: bool = True
    driver_series: Version = ""
    minimum_driver: Version = ""
    minimum_memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    maximum_uncorrected_errors: Annotated[int, msgspec.Meta(ge=0)] = 0
    compute_runtime: bool = True


class FabricVerify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A collective test over the devices gives right results, fast enough.

    Attributes:
        minimum_devices: how many have to take part.
        every_device: as many as the PCI bus shows have to take part.
        minimum_bus_bandwidth: average bus bandwidth in GB/s (10^9 bytes); 0 takes any.
    """

    minimum_devices: Count = 1
    every_device: bool = True
    minimum_bus_bandwidth: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0


class ContainerRuntimeCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The node's container runtime could hand its devices to a container.

    Attributes:
        minimum_devices: how many it has to know.
    """

    minimum_devices: Count = 1
