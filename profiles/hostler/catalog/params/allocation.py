"""Parameters of what is given to an allocation on a node, and taken back."""

from typing import Annotated, Literal

import msgspec

from hostler.catalog.params.artifact import Path

AllocationId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$(?!\n)")]
UserName = Annotated[str, msgspec.Meta(pattern=r"^[a-z_][a-z0-9_-]{0,30}$(?!\n)")]
PublicKey = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(ssh-ed25519|sk-ssh-ed25519@openssh\.com|ecdsa-sha2-nistp(256|384|521)|ssh-rsa)"
        r" [A-Za-z0-9+/]{40,1200}={0,3}( [A-Za-z0-9@._-]{1,64})?$(?!\n)",
        max_length=1400,
        description="one line of authorized_keys, without options",
    ),
]
Unit = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9@_.:-]{1,200}\.(service|socket|timer|scope|path|slice)$(?!\n)")]
Link = Literal["allocation.runtime.deprovision", "allocation.identity.revoke"]
Users = Annotated[tuple[UserName, ...], msgspec.Meta(max_length=64)]
Links = Annotated[tuple[Link, ...], msgspec.Meta(max_length=2)]
Ignored = Annotated[tuple[Path, ...], msgspec.Meta(max_length=64)]


class _OfAllocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    allocation_id: AllocationId


class BaselineTake(_OfAllocation, frozen=True, kw_only=True):
    """Records what stands on the host before the tenant comes; the receipt names the record's digest.

    Attributes:
        ignore: places of this site that change by themselves; they are left out here and in the check.
        max_entries, within_seconds: what looking may cost; past it the baseline fails.
    """

    ignore: Ignored = ()
    max_entries: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] = 5_000_000
    within_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 900


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`keys` are all that lets the user in: there is no password."""

    name: UserName
    keys: Annotated[tuple[PublicKey, ...], msgspec.Meta(max_length=16)] = ()


class IdentityGrant(_OfAllocation, frozen=True, kw_only=True):
    """Makes local users for an allocation, each with a home and its authorized keys.

    Attributes:
        sudo: whether they may become root; the definition says so, never an input.
        linger: whether their services may run without a session.
    """

    users: Annotated[tuple[User, ...], msgspec.Meta(min_length=1, max_length=64)]
    sudo: bool = False
    linger: bool = False


class IdentityRevoke(_OfAllocation, frozen=True, kw_only=True):
    """Removes the allocation's users with everything that lets them in or runs for them.

    Attributes:
        users: besides those that this node made for the allocation; never one of the system.
        after: links of the chain that have to have succeeded on this node.
    """

    users: Users = ()
    after: Links = ()


class AccessFence(_OfAllocation, frozen=True, kw_only=True):
    """Locks the allocation's users out: no new sessions, the present ones ended, keys put aside.

    Attributes:
        users: besides those that this node made for the allocation; never one of the system.
        within_seconds: how long their processes are waited for; what still hangs in the kernel then is named.
    """

    users: Users = ()
    within_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=4)] = 3


class StorageGrant(_OfAllocation, frozen=True, kw_only=True):
    """Makes a private directory for a user of the allocation, inside the prefixes this node allows."""

    path: Path
    owner: UserName


class StorageRelease(_OfAllocation, frozen=True, kw_only=True):
    """Unmounts and removes what the allocation was given, and what its users left in shared places.

    Attributes:
        users: besides those that this node made for the allocation; never one of the system.
        homes: whether homes go too, with the credentials in them.
    """

    users: Users = ()
    homes: bool = True


class WorkloadStop(_OfAllocation, frozen=True, kw_only=True):
    """Stops units, then every process of the allocation's users.

    Attributes:
        units: of the system's manager; none of the host's own.
        users: besides those that this node made for the allocation; never one of the system.
        within_seconds: how long processes are waited for; one that is left then fails the step by name.
    """

    units: Annotated[tuple[Unit, ...], msgspec.Meta(max_length=64)] = ()
    users: Users = ()
    within_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 30
