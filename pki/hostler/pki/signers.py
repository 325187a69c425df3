"""Where private keys live: in a file, in a PKCS#11 token (an HSM), or in a TPM.

A key file (mode 0600) holds either the key itself, or one line that says where the key is:

    pkcs11:token=hostler;object=dispatch?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=/etc/hostler/pin
    tpm2:handle=0x81010001?tcti=device:/dev/tpmrm0

So whatever takes a key file takes any of them. A key in a token or a TPM never leaves it; it is P-256.
"""

import threading
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from hostler.base.errors import error
from hostler.pki.keys import FileSigner, PublicKey, X509Signer
from hostler.pki.storage import read_private

_LONGEST_URI = 2048
_SCHEMES = (b"pkcs11:", b"tpm2:")


def load(path: Path) -> X509Signer:
    """The signer that a key file is, or names.

    Raises:
        HostlerError: `invalid_config` for a file that is absent, broken or open to others, a URI that says too
            little or too much, a token or key that is not there, a wrong PIN.
    """
    data = read_private(path)
    if not data.startswith(_SCHEMES):
        return FileSigner.from_pem(data)
    uri = _read_uri(data, path)
    if uri.scheme == "tpm2":
        from hostler.pki.tpm import TpmSigner

        return TpmSigner(uri.need("handle"), uri.query.get("tcti", ""))
    from hostler.pki.pkcs11 import TokenSigner

    pin = read_private(Path(uri.need_query("pin-source"))).decode().strip()
    return TokenSigner(uri.need_query("module-path"), uri.need("token"), uri.need("object"), pin)


class _Uri:
    """A URI as in RFC 7512: attributes in the path, separated by semicolons, then a query."""

    def __init__(self, text: str, where: Path) -> None:
        self.scheme, _, rest = text.partition(":")
        path, _, query = rest.partition("?")
        self._where = where
        pairs = (part.partition("=") for part in path.split(";") if part)
        self.path = {name: unquote(value) for name, _, value in pairs}
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        unknown = (self.path.keys() - {"token", "object", "handle", "type"}) | (
            self.query.keys() - {"module-path", "pin-source", "tcti"}
        )
        if "pin-value" in unknown:
            raise error("invalid_config", f"{where} holds a PIN", hint="name a file of mode 0600 with pin-source=")
        if unknown:
            raise error("invalid_config", f"{where}: {min(unknown)!r} is not understood here")

    def need(self, name: str) -> str:
        return self._need(self.path, name)

    def need_query(self, name: str) -> str:
        return self._need(self.query, name)

    def _need(self, values: dict[str, str], name: str) -> str:
        if not values.get(name):
            raise error("invalid_config", f"{self._where}: the {self.scheme} URI names no {name}")
        return values[name]


def _read_uri(data: bytes, path: Path) -> _Uri:
    lines = data.decode("ascii", "replace").split()
    if len(lines) != 1 or len(lines[0]) > _LONGEST_URI or not lines[0].isprintable():
        raise error("invalid_config", f"{path} holds more than one URI, or none")
    return _Uri(lines[0], path)


class RemoteKey(ec.EllipticCurvePrivateKey):
    """A private key that is elsewhere, in the shape in which certificates and requests are signed."""

    def __init__(self, signer: "RemoteSigner") -> None:
        self._signer = signer

    def sign(self, data: object, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        if not isinstance(signature_algorithm.algorithm, hashes.SHA256):
            raise ValueError("this key signs with SHA-256")
        return self._signer.sign(bytes(data))  # type: ignore[call-overload]  # any buffer

    def public_key(self) -> ec.EllipticCurvePublicKey:
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        key = load_der_public_key(self._signer.public.spki_der)
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return key

    @property
    def curve(self) -> ec.EllipticCurve:
        return ec.SECP256R1()

    @property
    def key_size(self) -> int:
        return 256

    def exchange(self, *_: object) -> bytes:
        raise NotImplementedError("this key only signs")

    def private_numbers(self) -> ec.EllipticCurvePrivateNumbers:
        raise NotImplementedError("the key does not leave its token")

    def private_bytes(self, *_: object, **__: object) -> bytes:
        raise NotImplementedError("the key does not leave its token")

    def __copy__(self) -> "RemoteKey":
        return self

    def __deepcopy__(self, memo: object) -> "RemoteKey":
        return self


class RemoteSigner:
    """Common to keys that are elsewhere: one signature at a time, and never the key itself."""

    def __init__(self, spki_der: bytes) -> None:
        self.public = PublicKey(spki_der)
        self._one = threading.Lock()

    def __reduce__(self) -> str:
        raise TypeError("a signer is not pickled")

    def sign(self, data: bytes) -> bytes:
        """DER signature over SHA-256 of `data`. Raises `signer_unavailable`."""
        with self._one:
            return self._sign(data)

    def _sign(self, data: bytes) -> bytes:
        raise NotImplementedError

    @property
    def private_key(self) -> RemoteKey:
        return RemoteKey(self)

    def to_pem(self) -> bytes:
        raise error("invalid_config", "this key lies in a token, and TLS needs it in a file")
