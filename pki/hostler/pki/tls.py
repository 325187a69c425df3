"""gRPC credentials from keys and keyset. Imports grpc inside: the rest of pki never does."""

from typing import TYPE_CHECKING

from hostler.pki.names import control_dns_name

if TYPE_CHECKING:
    import grpc


def server_credentials(key_pem: bytes, chain_pem: bytes, ca_pems: tuple[str, ...]) -> "grpc.ServerCredentials":
    """Mutual TLS: a client without a certificate by one of the CAs does not get through the handshake."""
    import grpc

    roots = "".join(ca_pems).encode()
    return grpc.ssl_server_credentials([(key_pem, chain_pem)], root_certificates=roots, require_client_auth=True)


def enrolment_credentials(key_pem: bytes, chain_pem: bytes) -> "grpc.ServerCredentials":
    """Server certificate only: a node that enrols has no identity yet."""
    import grpc

    return grpc.ssl_server_credentials([(key_pem, chain_pem)])


def channel_credentials(
    ca_pems: tuple[str, ...], key_pem: bytes | None = None, chain_pem: bytes | None = None
) -> "grpc.ChannelCredentials":
    """A node's side; without key and chain for enrolment only."""
    import grpc

    return grpc.ssl_channel_credentials("".join(ca_pems).encode(), key_pem, chain_pem)


def channel_options(trust_domain: str) -> list[tuple[str, str]]:
    """The server must present a control plane's certificate: no node's carries this name."""
    return [("grpc.ssl_target_name_override", control_dns_name(trust_domain))]
