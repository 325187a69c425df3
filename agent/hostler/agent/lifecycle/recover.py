"""Back into service after sleeping past the certificate's end: the enrolled key is proof enough (PK-05).

Goes to the enrolment service, because nothing that the node could show is valid any more. No token: what is
asked for is a certificate for the very key that was enrolled, and only its holder can use that.
"""

from typing import NamedTuple

from hostler.agent.lifecycle.grpc_errors import as_hostler_error
from hostler.agent.lifecycle.identity import Identity
from hostler.pki import tls
from hostler.pki.trust import TrustStore

_TIMEOUT_S = 20.0


class Recovered(NamedTuple):
    """`keysets`: those the node has missed, oldest first, unverified."""

    chain_pem: bytes
    keysets: tuple[bytes, ...]


async def recover(me: Identity, trust: TrustStore, address: str) -> Recovered:
    """Asks once.

    Raises:
        HostlerError: what the control plane answered, or `controller_unreachable`, also when this node no
            longer knows the CA of the control plane's certificate.
    """
    import grpc.aio

    from hostler.pki.x509 import make_csr
    from hostler.v1 import node_pb2, node_pb2_grpc

    request = node_pb2.RecoverRequest(
        node_id=me.node_id, csr_der=make_csr(me.signer, me.node_id), keyset_version=trust.keyset.version
    )
    credentials = tls.channel_credentials(trust.keyset.ca_certificates)
    options = tls.channel_options(me.facts.trust_domain)
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        stub = node_pb2_grpc.EnrollmentServiceStub(channel)
        try:
            answer = await stub.Recover(request, timeout=_TIMEOUT_S)
        except grpc.aio.AioRpcError as err:
            raise as_hostler_error(err, address) from err
    return Recovered(answer.certificate_pem, tuple(answer.keysets))
