"""What this node keeps of an allocation: what it was given, the baseline, the certificate.

One private directory an allocation, below the agent's state. Files are replaced whole and synced; what they
say counts only together with the journal, which names their digests.
"""

import os
import re
from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.base.strict import decode_record
from hostler.pki.storage import sync_directory

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
MOST_BYTES = 256 * 1024 * 1024
GRANTS, BASELINE, FINDINGS, CERTIFICATE = "grants.json", "baseline.json", "findings.json", "certificate.json"


class Granted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user that was made for an allocation."""

    name: str
    uid: int
    home: str


class Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`storage`: directories that were made for it; `parents`: those above them that were missing before."""

    users: tuple[Granted, ...] = ()
    storage: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()


class Holdings:
    """The door. Methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, allocation_id: str, name: str) -> bytes | None:
        try:
            data = (self._of(allocation_id) / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as err:
            raise error("storage_unhealthy", f"{name} of allocation {allocation_id} cannot be read") from err
        return data

    def write(self, allocation_id: str, name: str, data: bytes) -> None:
        """Raises `storage_unhealthy`."""
        folder = self._of(allocation_id)
        scratch = folder / f"{name}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            scratch.replace(folder / name)
            sync_directory(folder)
        except OSError as err:
            raise error("storage_unhealthy", f"{name} of allocation {allocation_id} cannot be kept") from err

    def grants(self, allocation_id: str) -> Grants:
        data = self.read(allocation_id, GRANTS)
        return decode_record(data, Grants, code="storage_unhealthy", what="grants") if data else Grants()

    def keep_grants(self, allocation_id: str, grants: Grants) -> None:
        self.write(allocation_id, GRANTS, msgspec.json.encode(grants))

    def _of(self, allocation_id: str) -> Path:
        if not NAME.fullmatch(allocation_id):
            raise error("invalid_request", "an allocation's name has letters, digits, '-' and '_' only")
        return self._folder / allocation_id
