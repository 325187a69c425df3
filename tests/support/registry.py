"""A real registry on loopback, with TLS and, where a test wants it, tokens; and what is pushed to it."""

import base64
import gzip
import hashlib
import http.client
import http.server
import io
import json
import ssl
import subprocess
import tarfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from conftest import need
from support.certs import ServerCerts
from support.ports import next_port

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def sha(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Registry:
    """`push_as` opens it for the test's own pushes: an `Authorization` header, made anew for each as tokens end."""

    port: int
    certs: ServerCerts
    push_as: Callable[[], str] = str

    @property
    def name(self) -> str:
        return f"localhost:{self.port}"

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        context = ssl.create_default_context(cafile=str(self.certs.ca))
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if authorization := self.push_as():
            named["Authorization"] = authorization
        try:
            connection.request(method, path, body or None, named)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def blob(self, repository: str, data: bytes, media_type: str = LAYER, **annotations: str) -> dict[str, Any]:
        """Pushes a blob; its descriptor."""
        status, headers, _ = self.call("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, status
        where = urlsplit(headers["location"])
        path = f"{where.path}?{where.query}&digest={sha(data)}"
        status, _, body = self.call("PUT", path, data, Content_Type="application/octet-stream")
        assert status == 201, body
        made: dict[str, Any] = {"mediaType": media_type, "digest": sha(data), "size": len(data)}
        if annotations:
            made["annotations"] = {name.replace("__", "."): value for name, value in annotations.items()}
        return made

    def manifest(self, repository: str, document: dict[str, Any], tag: str = "") -> str:
        """Pushes a manifest or an index; its digest."""
        body = json.dumps(document).encode()
        path = f"/v2/{repository}/manifests/{tag or sha(body)}"
        status, _, said = self.call("PUT", path, body, Content_Type=document["mediaType"])
        assert status == 201, said
        return sha(body)

    def bundle(self, repository: str, files: dict[str, bytes], tag: str = "") -> str:
        """What `oras push` makes of files."""
        layers = [
            self.blob(repository, data, "application/octet-stream", org__opencontainers__image__title=title)
            for title, data in files.items()
        ]
        empty = self.blob(repository, b"{}", "application/vnd.oci.empty.v1+json")
        document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "artifactType": "application/vnd.example.bundle"}
        return self.manifest(repository, document | {"config": empty, "layers": layers}, tag)

    def image(self, repository: str, *layers: bytes, architecture: str = "amd64", tag: str = "") -> str:
        """An image of uncompressed tar layers."""
        zipped = [gzip.compress(layer, mtime=0) for layer in layers]
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": [sha(layer) for layer in layers]},
        }
        kind = "application/vnd.oci.image.config.v1+json"
        document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST}
        document["config"] = self.blob(repository, json.dumps(config).encode(), kind)
        document["layers"] = [self.blob(repository, layer) for layer in zipped]
        return self.manifest(repository, document, tag)


def layer(*entries: tuple[tarfile.TarInfo, bytes] | tuple[str, bytes]) -> bytes:
    """An uncompressed layer. An entry is a name or a whole header, and its content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for what, data in entries:
            header = tarfile.TarInfo(what) if isinstance(what, str) else what
            if header.isreg():
                header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return buffer.getvalue()


def entry(name: str, type_: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = type_
    for key, value in fields.items():
        setattr(made, key, value)
    return made


@contextmanager
def registry(
    place: Path, certs: ServerCerts, tokens: "TokenServer | None" = None, login: tuple[str, str] | None = None
) -> Iterator[Registry]:
    """Debian's docker-registry: for everybody, for those with a token, or for this name and password alone."""
    need("docker-registry")
    port = next_port()
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(place / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}", "tls": {"certificate": str(certs.certificate), "key": str(certs.key)}},
    }
    if tokens is not None:
        token = {"realm": tokens.realm, "service": "test", "issuer": "test", "rootcertbundle": str(certs.certificate)}
        config["auth"] = {"token": token}
    if login is not None:
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(_htpasswd(place, *login))}}
    file = place / f"registry-{port}.yml"
    file.write_text(json.dumps(config))  # JSON is YAML
    with (place / "registry.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(file)], stdout=log, stderr=log)
    try:
        made = Registry(port, certs, lambda: _authorization(tokens, login))
        _until_it_answers(made, process)
        yield made
    finally:
        process.terminate()
        process.wait(10)


def _authorization(tokens: "TokenServer | None", login: tuple[str, str] | None) -> str:
    if login is not None:
        return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"
    return f"Bearer {tokens.token('*', ('pull', 'push'))}" if tokens else ""


def _htpasswd(place: Path, name: str, password: str) -> Path:
    """The registry takes bcrypt alone; what it is made by goes with Python 3.13."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import crypt
    file = place / "htpasswd"
    file.write_text(f"{name}:{crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))}\n")
    return file


@contextmanager
def lying_registry() -> Iterator[str]:
    """Over plain HTTP; whatever digest is asked for, it sends the same manifest. Its name."""
    body = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": {}, "layers": []}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", OCI_MANIFEST)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", self.path.rpartition("/")[2])
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _until_it_answers(made: Registry, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(400):
        try:
            made.call("GET", "/v2/")
        except OSError:
            assert process.poll() is None, "the registry ended"
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the registry does not answer")


@dataclass
class TokenServer:
    """Gives out what the distribution token specification says, signed as docker-registry checks it."""

    certs: ServerCerts
    logins: dict[str, str] = field(default_factory=dict)  # user: password
    lifetime_s: int = 300
    asked: list[tuple[str, str]] = field(default_factory=list)  # (query, Authorization header)
    port: int = 0

    @property
    def realm(self) -> str:
        return f"https://localhost:{self.port}/token"

    def token(self, repository: str, actions: Sequence[str]) -> str:
        key = serialization.load_pem_private_key(self.certs.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(self.certs.certificate.read_bytes())
        der = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()
        now = int(time.time())
        names = REPOSITORIES if repository == "*" else (repository,)
        access = [{"type": "repository", "name": name, "actions": list(actions)} for name in names]
        claims = {"iss": "test", "sub": "t", "aud": "test", "exp": now + self.lifetime_s, "nbf": now - 60, "iat": now}
        head = {"typ": "JWT", "alg": "ES256", "x5c": [der]}
        text = f"{_b64(json.dumps(head).encode())}.{_b64(json.dumps(claims | {'jti': '1', 'access': access}).encode())}"
        r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    @contextmanager
    def running(self) -> Iterator["TokenServer"]:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                status, body = outer.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                """OAuth 2 is not offered; containerd asks for it first."""
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                return

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certs.certificate, self.certs.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        scope = parse_qs(urlsplit(path).query).get("scope", [""])[0]
        _, _, rest = scope.partition(":")
        repository, _, actions = rest.rpartition(":")
        user, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.logins and self.logins.get(user) != password:
            return 401, b"{}"
        return 200, json.dumps({"token": self.token(repository, actions.split(",")), "expires_in": 300}).encode()


REPOSITORIES = ("team/a", "team/b", "team/private")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
