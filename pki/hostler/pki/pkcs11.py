"""Keys in a PKCS#11 token, through python-pkcs11 (the extra `hsm`)."""

import hashlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from hostler.base.errors import HostlerError, error
from hostler.pki.signers import RemoteSigner

_HALF = 32


class TokenSigner(RemoteSigner):
    """One P-256 key of one token, in a session that stays open."""

    def __init__(self, module: str, token: str, label: str, pin: str) -> None:
        """Raises `invalid_config` for a module, token, key or PIN that does not do."""
        try:
            import pkcs11
        except ImportError as err:
            hint = "install hostler with the extra 'hsm'"
            raise error("invalid_config", "keys in PKCS#11 tokens need python-pkcs11", hint=hint) from err
        try:
            self._session = _open(pkcs11.lib(module).get_token(token_label=token), pin)
        except Exception as err:  # the library wraps modules of all makers
            raise error("invalid_config", f"token {token!r} of {module} does not open ({type(err).__name__})") from err
        self._mechanism = pkcs11.Mechanism.ECDSA
        try:
            self._key = self._find(pkcs11.ObjectClass.PRIVATE_KEY, token, label)
            super().__init__(_spki(self._find(pkcs11.ObjectClass.PUBLIC_KEY, token, label), label))
        except HostlerError:
            self._session.close()
            raise

    def _find(self, kind: Any, token: str, label: str) -> Any:
        try:
            return self._session.get_key(object_class=kind, label=label)
        except Exception as err:
            name = f"token {token!r} has not exactly one {kind.name.lower()} named {label!r}"
            raise error("invalid_config", f"{name} ({type(err).__name__})") from err

    def _sign(self, data: bytes) -> bytes:
        try:
            raw: bytes = self._key.sign(hashlib.sha256(data).digest(), mechanism=self._mechanism)
        except Exception as err:
            raise error("signer_unavailable", f"the token does not sign ({type(err).__name__})") from err
        return encode_dss_signature(int.from_bytes(raw[:_HALF]), int.from_bytes(raw[_HALF:]))


def _open(token: Any, pin: str) -> Any:
    """A session; a process is logged in to a token once, for all its sessions."""
    from pkcs11.exceptions import UserAlreadyLoggedIn

    try:
        return token.open(user_pin=pin)
    except UserAlreadyLoggedIn:
        return token.open()


def _spki(public: Any, label: str) -> bytes:
    from pkcs11.util.ec import encode_ec_public_key

    try:
        encoded: bytes = encode_ec_public_key(public)
    except Exception as err:
        raise error("invalid_config", f"key {label!r} of the token is no P-256 key") from err
    return encoded
