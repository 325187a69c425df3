"""Keys in a TPM 2.0, through tpm2-tools: each signature is one short process. For keys that sign seldom."""

import subprocess
import tempfile
from pathlib import Path

from hostler.base.errors import error
from hostler.pki.signers import RemoteSigner

_TOOLS = "/usr/bin"
_TIMEOUT_S = 30


class TpmSigner(RemoteSigner):
    """A P-256 key at a persistent handle. `tcti`: how the TPM is reached; "" for the tools' own way."""

    def __init__(self, handle: str, tcti: str) -> None:
        """Raises `invalid_config` for a handle without a key of ours, or a TPM that does not answer."""
        if not handle.startswith("0x") or not handle[2:].isalnum():
            raise error("invalid_config", f"{handle!r} is no handle of a TPM, such as 0x81010001")
        self._handle = handle
        self._tcti = ("-T", tcti) if tcti else ()
        with tempfile.TemporaryDirectory(prefix="hostler-tpm-") as scratch:
            public = Path(scratch) / "public.der"
            self._run("invalid_config", "tpm2_readpublic", "-c", handle, "-f", "der", "-o", str(public))
            super().__init__(public.read_bytes())

    def _sign(self, data: bytes) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hostler-tpm-") as scratch:
            message, signature = Path(scratch) / "message", Path(scratch) / "signature"
            message.write_bytes(data)
            options = ("-c", self._handle, "-g", "sha256", "-f", "plain", "-o", str(signature), str(message))
            self._run("signer_unavailable", "tpm2_sign", *options)
            return signature.read_bytes()

    def _run(self, code: str, tool: str, *arguments: str) -> None:
        """Without a resource manager in between, what a tool leaves in the TPM fills it: flushed every time."""
        try:
            for command in ((tool, *self._tcti, "-Q", *arguments), ("tpm2_flushcontext", *self._tcti, "-t")):
                subprocess.run(
                    (f"{_TOOLS}/{command[0]}", *command[1:]),
                    check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S, env={},
                )  # fmt: skip
        except FileNotFoundError as err:
            raise error("invalid_config", f"{err.filename} is not installed", hint="install tpm2-tools") from err
        except subprocess.SubprocessError as err:
            raise error(code, f"{tool} failed for the key at {self._handle} of the TPM") from err
