"""EnrollmentService: a token and a signing request for an identity, exactly once (PK-02, I5)."""

from typing import Any

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.commands import EnrollNode, NodeEnrolled
from hostler.control.metrics import Metrics
from hostler.control.rpc.errors import guarded
from hostler.control.rpc.node_service import issue
from hostler.pki.authority import Authority
from hostler.pki.tokens import read_enrolment_token
from hostler.pki.x509 import read_csr
from hostler.v1 import node_pb2, node_pb2_grpc

_log = get_logger("hostler.control.rpc.enrolment")
_FAILURES_A_MINUTE = 30
_MAX_ADDRESSES = 10_000
_MAX_LABELS = 64


class EnrollmentService(node_pb2_grpc.EnrollmentServiceServicer):
    """The token is compared by its hash and never logged."""

    def __init__(
        self,
        engine: Engine,
        authority: Authority,
        clock: Clock,
        keyset: bytes,
        certificate_s: int,
        metrics: Metrics,
    ) -> None:
        self._engine = engine
        self._authority = authority
        self._clock = clock
        self._keyset = keyset
        self._certificate_s = certificate_s
        self._metrics = metrics
        self._failures: dict[str, tuple[int, int]] = {}

    @guarded
    async def Enroll(self, request: node_pb2.EnrollRequest, context: Any) -> node_pb2.EnrollResponse:
        peer = context.peer()
        address = peer.rpartition(":")[0]
        self._check_rate(address)
        try:
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
            keyset=self._keyset,
            control_epoch=await self._engine.reader.epoch(),
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
