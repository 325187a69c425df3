"""EnrollmentService: a token and a signing request for an identity, exactly once (PK-02, I5)."""

from typing import Any

from hostler.base.clock import Clock
from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.commands import EnrollNode, NodeEnrolled
from hostler.control.lifecycle_metrics import ENROL, RECOVER
from hostler.control.metrics import Metrics
from hostler.control.rpc.errors import guarded
from hostler.control.rpc.keyset_feed import missed
from hostler.control.rpc.node_service import issue
from hostler.pki.authority import Authority
from hostler.pki.keys import PublicKey
from hostler.pki.tokens import read_enrolment_token
from hostler.pki.x509 import read_csr
from hostler.v1 import node_pb2, node_pb2_grpc

_log = get_logger("hostler.control.rpc.enrolment")
_FAILURES_A_MINUTE = 30
_MAX_ADDRESSES = 10_000
_MAX_LABELS = 64
_DAY_MS = 86_400_000


class EnrollmentService(node_pb2_grpc.EnrollmentServiceServicer):
    """The token is compared by its hash and never logged."""

    def __init__(
        self,
        engine: Engine,
        authority: Authority,
        clock: Clock,
        certificate_s: int,
        recovery_days: int,
        metrics: Metrics,
    ) -> None:
        self._engine = engine
        self._authority = authority
        self._clock = clock
        self._certificate_s = certificate_s
        self._recovery_ms = recovery_days * _DAY_MS
        self._metrics = metrics
        self._failures: dict[str, tuple[int, int]] = {}

    @guarded
    async def Enroll(self, request: node_pb2.EnrollRequest, context: Any) -> node_pb2.EnrollResponse:
        peer = context.peer()
        address = peer.rpartition(":")[0]
        self._check_rate(address)
        try:
            with self._metrics.lifecycle.timed(ENROL):
                made = await self._enroll(request, peer)
        except HostlerError as err:
            self._count_failure(address)
            self._metrics.enrolments.labels(err.code).inc()
            _log.warning("enrolment.refused", error=err, peer=peer)
            raise
        self._metrics.enrolments.labels("enrolled").inc()
        return made

    async def _enroll(self, request: node_pb2.EnrollRequest, peer: str) -> node_pb2.EnrollResponse:
        token = read_enrolment_token(request.token)
        key = read_csr(request.csr_der)
        if len(request.labels) > _MAX_LABELS:
            raise error("invalid_request", f"a node has at most {_MAX_LABELS} labels")
        made: NodeEnrolled = await self._engine.execute(
            EnrollNode(
                token_id=token.token_id,
                token_sha256=token.sha256,
                public_key_spki=key.spki_der,
                thumbprint=key.key_id,
                agent_version=request.agent_version[:64],
                labels=dict(request.labels),
                peer=peer,
                runner_key=_runner_key(request.runner_key),
            )
        )
        chain = await issue(
            self._engine, self._authority, made.node_id, request.csr_der, self._clock, self._certificate_s
        )
        _log.info("node.enrolled", node_id=made.node_id, fingerprint=key.key_id, peer=peer)
        return node_pb2.EnrollResponse(
            node_id=made.node_id,
            org_id=made.org_id,
            project_id=made.project_id,
            certificate_pem=chain,
            keyset=self._engine.trust.state.keyset,
            control_epoch=self._engine.control_epoch,
            keysets=missed(self._engine, request.keyset_version),
            catalog=await self._catalog(),
        )

    async def _catalog(self) -> node_pb2.CatalogUpdate | None:
        """What the node starts with (RD-05); None before the first one is published."""
        stored = await self._engine.reader.catalog()
        if stored is None:
            return None
        _, manifest, documents = stored
        return node_pb2.CatalogUpdate(manifest=manifest, documents=documents)

    @guarded
    async def Recover(self, request: node_pb2.RecoverRequest, context: Any) -> node_pb2.RecoverResponse:
        """A certificate for an enrolled key whose last one ran out (PK-05). Worthless without that key."""
        peer = context.peer()
        address = peer.rpartition(":")[0]
        self._check_rate(address)
        try:
            with self._metrics.lifecycle.timed(RECOVER):
                chain = await self._recover(request)
        except HostlerError as err:
            self._count_failure(address)
            self._metrics.enrolments.labels(err.code).inc()
            _log.warning("recovery.refused", error=err, peer=peer)
            raise
        self._metrics.enrolments.labels("recovered").inc()
        _log.info("node.recovered", node_id=request.node_id, peer=peer)
        return node_pb2.RecoverResponse(certificate_pem=chain, keysets=missed(self._engine, request.keyset_version))

    async def _recover(self, request: node_pb2.RecoverRequest) -> bytes:
        key = read_csr(request.csr_der)
        known = await self._engine.reader.node_identity(request.node_id)
        if known is None or not same_digest(known.thumbprint, key.key_id):
            raise error("certificate_invalid", "no node is enrolled by this name with this key")
        if known.revoked:
            raise error("revoked", f"node {known.name} is revoked")
        away_ms = self._clock.now_ms() - known.certificate_expires_ms
        if away_ms > self._recovery_ms:
            raise error(
                "certificate_invalid",
                f"node {known.name} has been without a certificate for {away_ms // _DAY_MS} days",
                hint="look at the node; then enrol it again, or raise recovery_days of the control plane",
            )
        return await issue(
            self._engine, self._authority, request.node_id, request.csr_der, self._clock, self._certificate_s
        )

    def _check_rate(self, address: str) -> None:
        """Raises `rate_limited`: guessing is slow, while a rack that enrols at once is not held up."""
        when, count = self._failures.get(address, (0, 0))
        if when == self._minute() and count >= _FAILURES_A_MINUTE:
            raise error("rate_limited", f"{count} enrolments from this address were refused within a minute")

    def _count_failure(self, address: str) -> None:
        minute = self._minute()
        when, count = self._failures.get(address, (minute, 0))
        if len(self._failures) >= _MAX_ADDRESSES:
            self._failures.clear()  # bounded whoever asks; a flood from so many addresses is not for us to stop
        self._failures[address] = (minute, count + 1 if when == minute else 1)

    def _minute(self) -> int:
        return self._clock.now_ms() // 60_000


def _runner_key(spki: bytes) -> bytes:
    """Raises `untrusted_key` for bytes that are no key; a node of before has none."""
    return PublicKey(spki).spki_der if spki else b""
