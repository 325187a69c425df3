"""A server that issuers are played on."""

from collections.abc import Iterator

import pytest

from support.certs import ServerCerts, make_server_certs
from support.tls_server import TlsServer, tls_server


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def server(certs: ServerCerts) -> Iterator[TlsServer]:
    with tls_server(certs, lambda _: (500, {})) as made:
        yield made
