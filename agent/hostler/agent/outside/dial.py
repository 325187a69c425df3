"""Channels to the control plane, as the node it is told to be."""

import grpc
import grpc.aio

from hostler.agent.outside.frames import Tls
from hostler.pki.tls import channel_credentials, channel_options

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # the runner's own back-off decides when to dial again
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]


def dial(address: str, tls: Tls) -> grpc.aio.Channel:
    """A lazy channel; nothing is sent before the first call. Mutual TLS where `tls` has a key."""
    credentials = channel_credentials(tls.ca_pems, tls.key_pem or None, tls.chain_pem or None)
    return grpc.aio.secure_channel(address, credentials, [*_OPTIONS, *channel_options(tls.trust_domain)])
