"""What MAAS answers to its deploy request, as its API 2.0 has it; what the machine would be given is kept.

A key of MAAS has three parts, and signs by OAuth 1.0 PLAINTEXT. Operations on a machine are POSTs of a form to
/MAAS/api/2.0/machines/SYSTEM_ID/op-NAME; `user_data` is base64, and what is not is refused as a bad request.
"""

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

CONSUMER, KEY, SECRET = "consumer", "key", "secret"
DEPLOY = re.compile(r"/MAAS/api/2[.]0/machines/([a-z0-9]+)/op-deploy")
KNOWN = {"user_data", "distro_series", "hwe_kernel", "osystem", "comment", "agent_name", "bridge_all"}
AUTHORIZATION = (
    f'Authorization: OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT", oauth_consumer_key="{CONSUMER}", '
    f'oauth_token="{KEY}", oauth_signature="&{SECRET}", oauth_nonce="1", oauth_timestamp="1"'
)


class Maas:
    """`deployed`: by system id, the form without the user data; `user_data`: what the machine's cloud-init is given."""

    def __init__(self, *machines: str) -> None:
        self.machines, self.url = machines, ""
        self.deployed: dict[str, dict[str, str]] = {}
        self.user_data: dict[str, bytes] = {}

    def deploy(self, path: str, kind: str, authorization: str, body: bytes) -> tuple[int, str]:
        found = DEPLOY.fullmatch(path)
        if f"Authorization: {authorization}" != AUTHORIZATION:
            return 401, "Authorization Error: Invalid API key."
        if found is None or found[1] not in self.machines:
            return 404, "No Machine matches the given query."
        if found[1] in self.deployed:
            return 409, "Cannot deploy a machine that is deployed."
        if kind != "application/x-www-form-urlencoded":
            return 400, "Unrecognised content."
        form = {name: value for name, (value,) in parse_qs(body.decode(), strict_parsing=True).items()}
        if form.keys() - KNOWN:
            return 400, f"unknown: {form.keys() - KNOWN}"
        try:
            self.user_data[found[1]] = base64.b64decode(form.pop("user_data"), validate=True)
        except (binascii.Error, KeyError):
            return 400, "user_data: Invalid base64."
        self.deployed[found[1]] = form
        return 200, json.dumps({"system_id": found[1], "status_name": "Deploying", **form})


@contextmanager
def open_maas(*machines: str) -> Iterator[Maas]:
    maas = Maas(*machines)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            said = self.headers
            status, text = maas.deploy(self.path, said["content-type"], said.get("authorization", ""), body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    maas.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield maas
    finally:
        server.shutdown()
        server.server_close()
