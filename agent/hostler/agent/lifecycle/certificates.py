"""Certificates for the node's key: enrolled with a token, renewed by the last one, or recovered by the key alone.

Asks through the network process; makes the signing requests here, where the key is.
"""

from typing import NamedTuple

from hostler.agent.lifecycle.identity import Identity
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Asks
from hostler.base.codes import CODES
from hostler.base.errors import HostlerError
from hostler.pki.trust import TrustStore


class Recovered(NamedTuple):
    """`keysets`: those the node has missed, oldest first, unverified."""

    chain_pem: bytes
    keysets: tuple[bytes, ...]


def tls_of(me: Identity, trust: TrustStore) -> Tls:
    """This node, towards the control planes of the keyset in force."""
    return Tls(
        trust_domain=me.facts.trust_domain,
        ca_pems=trust.keyset.ca_certificates,
        key_pem=me.signer.to_pem(),
        chain_pem=me.chain_pem,
    )


def nameless(trust: TrustStore) -> Tls:
    """For calls that need no certificate of ours."""
    return Tls(trust_domain=trust.keyset.trust_domain, ca_pems=trust.keyset.ca_certificates)


async def renew(ask: Asks, me: Identity, trust: TrustStore, address: str) -> bytes:
    """A fresh chain for the same key, by a certificate that is still good (PK-03)."""
    from hostler.pki.x509 import make_csr
    from hostler.v1 import node_pb2

    request = node_pb2.RenewRequest(csr_der=make_csr(me.signer, me.node_id))
    answer = await ask(tls_of(me, trust), address, "Renew", request.SerializeToString())
    chain: bytes = node_pb2.RenewResponse.FromString(answer).certificate_pem
    return chain


async def served(ask: Asks, me: Identity, trust: TrustStore, address: str, timeout_s: float) -> bool:
    """Whether the control plane would serve this node now; False while it is at fault itself (U2).

    What it says of this node, even that it is revoked, is an answer.
    """
    from hostler.v1 import node_pb2

    try:
        await ask(tls_of(me, trust), address, "Check", node_pb2.CheckRequest().SerializeToString(), timeout_s)
    except HostlerError as err:
        return CODES[err.code].family not in ("Unavailable", "Exhausted", "Internal")
    return True


async def recover(ask: Asks, me: Identity, trust: TrustStore, address: str) -> Recovered:
    """Back into service after sleeping past the certificate's end: the enrolled key is proof enough (PK-05).

    Goes to the enrolment service, because nothing that the node could show is valid any more. No token: what is
    asked for is a certificate for the very key that was enrolled, and only its holder can use that.

    Raises:
        HostlerError: what the control plane answered, or `controller_unreachable`, also when this node no
            longer knows the CA of the control plane's certificate.
    """
    from hostler.pki.x509 import make_csr
    from hostler.v1 import node_pb2

    request = node_pb2.RecoverRequest(
        node_id=me.node_id, csr_der=make_csr(me.signer, me.node_id), keyset_version=trust.keyset.version
    )
    data = await ask(nameless(trust), address, "Recover", request.SerializeToString())
    answer = node_pb2.RecoverResponse.FromString(data)
    return Recovered(answer.certificate_pem, tuple(answer.keysets))
