"""What can change about code bundles, as frozen data; a part of `kernel.commands`."""

import msgspec

from hostler.control.kernel.actor import Actor


class StoreBundle(msgspec.Struct, frozen=True, kw_only=True):
    """→ whether it is new. The edge has the bytes on disk, under this digest and of this size.

    Attributes:
        quota_bytes: what all bundles of the project may take together.
    """

    actor: Actor
    org_id: str
    project_id: str
    sha256: str
    size_bytes: int
    quota_bytes: int


class DeleteBundle(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. Refused while a job that has not ended names it."""

    actor: Actor
    org_id: str
    project_id: str
    sha256: str


class UseBundle(msgspec.Struct, frozen=True, kw_only=True):
    """→ `BundleGrant`. A node asks for the bytes for a task that it runs now."""

    actor: Actor
    node_id: str
    task_id: str
    attempt_uid: str
    sha256: str


class BundleGrant(msgspec.Struct, frozen=True):
    org_id: str
    project_id: str
    size_bytes: int


class ExpireBundles(msgspec.Struct, frozen=True, kw_only=True):
    """→ (org_id, project_id, sha256) of those that nobody has used since `unused_since_ms`, `limit` at most."""

    unused_since_ms: int
    limit: int = 100


BundleCommand = StoreBundle | DeleteBundle | UseBundle | ExpireBundles
