"""Certificate → node, on every call: trust domain, role, life, revocation, key."""

import functools
from typing import Any

from hostler.base.clock import Clock
from hostler.base.errors import error
from hostler.control.engine import Engine
from hostler.pki.x509 import PeerIdentity, check_time, read_identity

_GOOD = ("issued", "proved")


@functools.lru_cache(maxsize=20_000)
def _parsed(pem: bytes) -> PeerIdentity:
    return read_identity(pem)


class Identities:
    """Says who a call is from, or refuses it."""

    def __init__(self, engine: Engine, trust_domain: str, clock: Clock) -> None:
        self._engine = engine
        self._trust_domain = trust_domain
        self._clock = clock

    async def of(self, context: Any) -> PeerIdentity:
        """The calling node.

        Raises:
            HostlerError: `certificate_invalid`, `revoked`.
        """
        pems = context.auth_context().get("x509_pem_cert", ())
        if not pems:
            raise error("certificate_invalid", "the call carries no client certificate")
        return await self.of_pem(bytes(pems[0]))

    async def of_pem(self, pem: bytes) -> PeerIdentity:
        """The same for a certificate whose chain and possession TLS has proved."""
        peer = _parsed(pem)
        if peer.role != "node" or peer.trust_domain != self._trust_domain:
            raise error("certificate_invalid", f"{peer.role} {peer.name} may not use the node service")
        check_time(peer, self._clock.now_ms())
        await self.check(peer)
        return peer

    async def check(self, peer: PeerIdentity) -> None:
        """Raises `revoked`, or `certificate_invalid` for a key or certificate that is not the node's any more."""
        known = await self._engine.reader.node_identity(peer.name)
        if known is None:
            raise error(
                "controller_rollback", f"node {peer.name} has a certificate by our CA, and is not known here any more"
            )
        if known.revoked:
            raise error("revoked", f"node {peer.name} is revoked")
        if known.thumbprint != peer.thumbprint:
            raise error("certificate_invalid", f"node {peer.name} has enrolled again with another key")
        state = await self._engine.reader.certificate(peer.name, peer.serial)
        if state not in _GOOD:
            # a renewal ends the older certificate only once the newer one was used (PK-04)
            reason = "was replaced by a newer one" if state else "was not issued here"
            raise error("certificate_invalid", f"certificate {peer.serial} of node {peer.name} {reason}")
