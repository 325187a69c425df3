"""moto's S3 and STS over TLS on loopback: the store that an artifact is staged from."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.certs import ServerCerts

_SIGNED = "AWS4-HMAC-SHA256 Credential=AKIAOWNKEY/20270101/us-east-1/s3/aws4_request"


@contextmanager
def moto_s3(certs: ServerCerts) -> Iterator[str]:
    """Its address."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    forget()
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=(str(certs.certificate), str(certs.key)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def forget() -> None:
    """What earlier tests of this process have put there: moto keeps it for as long as the process lives."""
    from moto.moto_api._internal import moto_api_backend

    moto_api_backend.reset()


def put(store: str, certs: ServerCerts, path: str, body: bytes) -> None:
    """Makes a bucket (`/name`) or an object in one."""
    context = ssl.create_default_context(cafile=str(certs.ca))
    connection = http.client.HTTPSConnection(store.removeprefix("https://"), context=context, timeout=20)
    connection.request("PUT", path, body, {"authorization": _SIGNED})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()
