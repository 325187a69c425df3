"""The two gRPC servers: nodes with mutual TLS, enrolment with the server's certificate only."""

import grpc.aio

from hostler.base.errors import error
from hostler.control.rpc.enrolment_service import EnrollmentService
from hostler.control.rpc.node_service import NodeService
from hostler.pki.tls import enrolment_credentials, server_credentials
from hostler.v1 import node_pb2_grpc

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]


def node_server(
    service: NodeService, listen: str, key_pem: bytes, chain_pem: bytes, ca_pems: tuple[str, ...]
) -> grpc.aio.Server:
    server = grpc.aio.server(options=_OPTIONS)
    node_pb2_grpc.add_NodeServiceServicer_to_server(service, server)
    _bind(server, listen, server_credentials(key_pem, chain_pem, ca_pems))
    return server


def enrolment_server(service: EnrollmentService, listen: str, key_pem: bytes, chain_pem: bytes) -> grpc.aio.Server:
    # small messages, few of them: strangers speak here
    options = [*_OPTIONS[2:], ("grpc.max_receive_message_length", 65_536)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=100)
    node_pb2_grpc.add_EnrollmentServiceServicer_to_server(service, server)
    _bind(server, listen, enrolment_credentials(key_pem, chain_pem))
    return server


def _bind(server: grpc.aio.Server, listen: str, credentials: grpc.ServerCredentials) -> None:
    try:
        bound = server.add_secure_port(listen, credentials)
    except RuntimeError as err:
        raise error("invalid_config", f"{listen} cannot be listened on") from err
    if bound == 0:
        raise error("invalid_config", f"{listen} cannot be listened on")
