"""Parameters of the proof that nothing of a tenant is left: `residue.check`, `device.sanitize`, `handover.certify`."""

from typing import Annotated, Literal

import msgspec

from hostler.catalog.params.allocation import AllocationId, Links

DevicePath = Annotated[str, msgspec.Meta(pattern=r"^/dev/[a-z][a-z0-9]{1,30}$(?!\n)")]
Method = Literal["overwrite", "zeroout", "secure_discard", "nvme_block", "nvme_crypto"]


class ResidueCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Compares the host with the allocation's baseline; any difference fails the step and is named.

    Attributes:
        after: links of the chain that have to have succeeded on this node.
        max_entries, within_seconds: what looking may cost; past it the check fails as `residue_incomplete`.
    """

    allocation_id: AllocationId
    after: Links = ()
    max_entries: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] = 5_000_000
    within_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 900


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`serial`: of the disk that is meant, so that a renamed one is not erased; "" where it has none."""

    path: DevicePath
    serial: Annotated[str, msgspec.Meta(max_length=200)] = ""


class DeviceSanitize(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Erases whole disks by one method and proves it by reading back; everything on them is lost.

    Attributes:
        method: overwrite (zeros written here), zeroout or secure_discard (by the kernel and the drive),
            nvme_block or nvme_crypto (the drive's own sanitize, by nvme-cli). Never replaced by another.
        after: links of the chain that have to have succeeded on this node.
    """

    allocation_id: AllocationId
    devices: Annotated[tuple[Device, ...], msgspec.Meta(max_length=64)] = ()
    method: Method = "overwrite"
    after: Links = ()


class HandoverCertify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signs that the node is clean after an allocation, if its own journal bears out every link.

    Attributes:
        after: links of the chain that have to have succeeded on this node.
    """

    allocation_id: AllocationId
    after: Links = ("allocation.runtime.deprovision", "allocation.identity.revoke")
