"""A stand-in for the API server of Kubernetes, over real TLS: what a joining node needs of it, and no more.

It keeps to what a real one (1.20.2 with its controller manager) answers: bearer tokens and client certificates, 409 for
a request that is there, a certificate that only appears after approval, cluster-info signed with the token.
"""

import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TOKEN = "abcdef.0123456789abcdef"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = serialization.Encoding.PEM


class Authority:
    """A cluster's CA."""

    def __init__(self, name: str = "kubernetes") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.id = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        others = "content_commitment data_encipherment key_agreement encipher_only decipher_only"
        usage = x509.KeyUsage(
            digital_signature=True,
            key_encipherment=True,
            key_cert_sign=True,
            crl_sign=True,
            **dict.fromkeys(others.split(), False),
        )
        made = self._builder(self.name, self.key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        made = made.add_extension(usage, critical=True).add_extension(self.id, critical=False)
        self.pem = made.sign(self.key, hashes.SHA256()).public_bytes(PEM)
        spki = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.pin = hashlib.sha256(spki).hexdigest()

    def issue(self, subject: x509.Name, public_key: Any, usage: Any, addresses: tuple[str, ...] = ()) -> bytes:
        made = self._builder(subject, public_key)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        made = made.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self.id), critical=False
        )
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self.key, hashes.SHA256()).public_bytes(PEM)

    def _builder(self, subject: x509.Name, public_key: Any) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )


@dataclass
class KubeApi:
    """Attributes:
    requests: CSR objects by name. nodes: node objects by name. asked: method, path and bearer of each request.
    approve: whether a request is answered with a certificate; `deny` with a reason instead; `other_key` with one for
        another key.
    """

    ca: Authority
    url: str = ""
    token: str = TOKEN
    approve: bool = True
    deny: str = ""
    other_key: bool = False
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def node(self, name: str, *, ready: str = "True", reason: str = "KubeletReady", **more: Any) -> None:
        """Puts a node object there, as a kubelet registers it."""
        condition = {"type": "Ready", "status": ready, "reason": reason, "message": more.get("message", "")}
        self.nodes[name] = {
            "metadata": {"name": name, "labels": more.get("labels", {})},
            "spec": {"taints": more.get("taints", [])},
            "status": {"conditions": [condition], "nodeInfo": {"bootID": more.get("boot_id", "")}},
        }

    def answer(self, method: str, path: str, bearer: str, common_name: str, body: bytes) -> tuple[int, Any]:
        self.asked.append((method, path, bearer))
        if path == "/api/v1/namespaces/kube-public/configmaps/cluster-info":
            return 200, self.cluster_info()
        if not common_name and bearer != self.token:
            return 401, {"kind": "Status", "code": 401, "reason": "Unauthorized"}
        if path.startswith(REQUESTS):
            return self._csr(method, path.removeprefix(REQUESTS).strip("/"), body)
        name = path.removeprefix("/api/v1/nodes/")
        if common_name != f"system:node:{name}":
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden"}
        return (200, self.nodes[name]) if name in self.nodes else (404, {"kind": "Status", "code": 404})

    def _csr(self, method: str, name: str, body: bytes) -> tuple[int, Any]:
        if method == "POST":
            made = json.loads(body)
            name = made["metadata"]["name"]
            if name in self.requests:
                return 409, {"kind": "Status", "code": 409, "reason": "AlreadyExists"}
            self.requests[name] = made | {"status": {}}
            return 201, self.requests[name]
        found = self.requests.get(name)
        if found is None:
            return 404, {"kind": "Status", "code": 404}
        if self.deny:
            found["status"] = {"conditions": [{"type": "Denied", "message": self.deny}]}
        elif self.approve:
            found["status"] = {"certificate": self._sign(found["spec"]), "conditions": [{"type": "Approved"}]}
        return 200, found

    def _sign(self, spec: dict[str, Any]) -> str:
        assert spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
        assert set(spec["usages"]) == {"digital signature", "key encipherment", "client auth"}
        csr = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        assert csr.is_signature_valid
        assert csr.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"
        key = ec.generate_private_key(ec.SECP256R1()).public_key() if self.other_key else csr.public_key()
        pem = self.ca.issue(csr.subject, key, ExtendedKeyUsageOID.CLIENT_AUTH)
        return base64.b64encode(pem).decode()

    def cluster_info(self) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(self.ca.pem).decode()}
        kubeconfig = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
        token_id, _, secret = self.token.partition(".")
        header = _base64url(json.dumps({"alg": "HS256", "kid": token_id}).encode())
        signed = f"{header}.{_base64url(kubeconfig.encode())}".encode()
        jws = f"{header}..{_base64url(hmac.digest(secret.encode(), signed, 'sha256'))}"
        return {"data": {"kubeconfig": kubeconfig, f"jws-kubeconfig-{token_id}": jws}}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def kube_api(directory: Path, ca: Authority | None = None) -> Iterator[KubeApi]:
    """Serves one on a free port of 127.0.0.1."""
    api = KubeApi(ca or Authority())
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    certificate = api.ca.issue(subject, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH, ("127.0.0.1",))
    directory.mkdir(parents=True, exist_ok=True)
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "server.pem").write_bytes(certificate + key.private_bytes(PEM, *form))
    (directory / "ca.pem").write_bytes(api.ca.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    context.load_verify_locations(directory / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    with serving(lambda *asked: api.answer(*asked), context) as port:
        api.url = f"https://127.0.0.1:{port}"
        yield api


@contextmanager
def serving(answer: Any, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """JSON over HTTP(S): `answer(method, path, bearer, common name, body)` gives status and value."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            status, value = answer(self.command, self.path, bearer, self._common_name(), body)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 - the base class names it

        def _common_name(self) -> str:
            peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
            subject = dict(part[0] for part in (peer or {}).get("subject", ()))  # type: ignore[misc, arg-type]
            return str(subject.get("commonName", ""))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> Any:
            sock, address = super().get_request()
            sock.settimeout(10)
            return (context.wrap_socket(sock, server_side=True) if context else sock), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
