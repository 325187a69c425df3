"""Keys by which tasks know each other: one of a project, one of each namespace. Derived from one file, stored nowhere.

What the control plane is asked for is who may have them: any task of a project that runs now has the project's, and
that of its own namespace alone (OD-32).
"""

import os
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hostler.base.digest import canonical_json
from hostler.base.errors import error
from hostler.pki.storage import read_private, write_private

KEY_BYTES = 32
_PURPOSE = b"hostler namespace key v1 "


class NamespaceKeys:
    """`namespace.key` of the keys directory, 32 random bytes; made on first use where it is absent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""

    def project(self, org_id: str, project_id: str) -> bytes:
        return self._derived("project", org_id, project_id)

    def namespace(self, org_id: str, project_id: str, namespace: str) -> bytes:
        return self._derived("namespace", org_id, project_id, namespace)

    def _derived(self, *words: str) -> bytes:
        """Raises `namespace_key_unavailable`, `invalid_config`."""
        info = _PURPOSE + canonical_json(list(words))
        return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self._root())

    def _root(self) -> bytes:
        if not self._key:
            if not self._path.exists():
                self._make()
            key = read_private(self._path)
            if len(key) != KEY_BYTES:
                raise error("invalid_config", f"{self._path} holds {len(key)} bytes, not {KEY_BYTES}")
            self._key = key
        return self._key

    def _make(self) -> None:
        try:
            write_private(self._path, os.urandom(KEY_BYTES))
        except OSError as err:
            raise error(
                "namespace_key_unavailable",
                f"{self._path} is absent and cannot be made: {err.strerror}",
                hint=f"as the owner of the directory: head -c 32 /dev/urandom > {self._path} && chmod 600 {self._path}",
            ) from err
