"""The listener for nodes: TLS 1.3 with their certificates, and the certificate handed on with each request."""

import ssl
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hostler.base.errors import error
from hostler.control.config import ControlConfig, split
from hostler.control.keys import Keys

CERTIFICATE = "hostler.client_certificate"
_GRACE_S = 2


class NodeProtocol(HttpToolsProtocol):
    """Puts the peer's certificate (DER) where the application finds it; nobody else can put anything there."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        tls: ssl.SSLObject | None = self.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls else None
        self.scope["extensions"] = {CERTIFICATE: {"der": certificate}}


def internal_server(config: ControlConfig, keys: Keys, app: Any) -> uvicorn.Config:
    """What serves `app` on `internal_listen`."""
    host, port = split(config.internal_listen)
    settings = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=NodeProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        server_header=False,
        limit_concurrency=200,
        timeout_graceful_shutdown=_GRACE_S,
    )
    settings.load()
    settings.ssl = _context(keys)
    return settings


def _context(keys: Keys) -> ssl.SSLContext:
    """Nobody gets through the handshake without a certificate by a CA of the keyset."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata="".join(keys.trust.keyset.ca_certificates))
    with tempfile.TemporaryDirectory(prefix="hostler-") as scratch:  # ssl reads keys from files alone; mode 0700
        pair = Path(scratch) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(keys.server_key_pem + b"\n" + keys.server_chain_pem)
        try:
            context.load_cert_chain(pair)
        except ssl.SSLError as err:
            raise error("invalid_config", "the server's key and certificate do not fit together") from err
    return context
