"""A file of random bytes in the keys directory, and the keys that are derived from it and stored nowhere."""

import os
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hostler.base.errors import error
from hostler.pki.storage import read_private, write_private

KEY_BYTES = 32


class KeyFile:
    """32 random bytes; made on first use where it is absent.

    Args:
        unavailable: the error code when it is absent and cannot be made.
    """

    def __init__(self, path: Path, unavailable: str) -> None:
        self._path = path
        self._unavailable = unavailable
        self._key = b""

    def derived(self, info: bytes) -> bytes:
        """32 bytes for that purpose. Raises as `root` does."""
        return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self.root())

    def root(self) -> bytes:
        """Raises the code of one that is `unavailable`; `invalid_config`."""
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
                self._unavailable,
                f"{self._path} is absent and cannot be made: {err.strerror}",
                hint=f"as the owner of the directory: head -c 32 /dev/urandom > {self._path} && chmod 600 {self._path}",
            ) from err
