"""Channels to the control plane, with this node's identity and the CAs of the keyset in force."""

import grpc
import grpc.aio

from hostler.agent.lifecycle.identity import Identity
from hostler.pki.tls import channel_credentials, channel_options
from hostler.pki.trust import TrustStore

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # our own back-off decides when to dial again
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]


def dial(address: str, identity: Identity, trust: TrustStore) -> grpc.aio.Channel:
    """A lazy mutual-TLS channel; nothing is sent before the first call."""
    credentials = channel_credentials(trust.keyset.ca_certificates, identity.signer.to_pem(), identity.chain_pem)
    return grpc.aio.secure_channel(address, credentials, [*_OPTIONS, *channel_options(identity.facts.trust_domain)])
