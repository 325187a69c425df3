"""One request for a credential, from the wire to the sealed answer.

    read → signed by the node's runner → bound (kernel, written down) → minter → still bound (written down) → sealed

Every refusal is a line of the audit and one more in `credential_mint_denied_total`; every grant is a line without the
material (CR-02, CR-09, CR-10).
"""

import asyncio

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.envelope import MINTED_TYPE
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.base.strict import decode_json
from hostler.catalog.credentials import CREDENTIAL_TYPES, intent_of
from hostler.control.credentials.contract import Ask, Made
from hostler.control.credentials.registry import Minters
from hostler.control.engine import Engine
from hostler.control.kernel.commands import Actor, AuthorizeMint, MintGrant, RecordMint, RecordRefusal
from hostler.control.metrics import Metrics
from hostler.pki import dsse
from hostler.pki.keys import PublicKey, Signer
from hostler.pki.sealing import seal
from hostler.wire.mint import MAX_REQUEST_BYTES, Minted, MintRequest, SignedMintRequest

_log = get_logger("hostler.control.credentials")
_START_S = 5.0  # how long the report that a step has begun may take to get here
_MINT_S = 30.0
_ISSUER_SAYS = ("minter_failed", "no_minter")


class Mints:
    """`mint` serves both edges: the RPC and the HTTP endpoints."""

    def __init__(self, engine: Engine, minters: Minters, signer: Signer, metrics: Metrics) -> None:
        self._engine = engine
        self._minters = minters
        self._signer = signer
        self._metrics = metrics

    async def mint(self, node_id: str, body: bytes, *, task_id: str = "", credential_type: str = "") -> bytes:
        """The answer: DSSE JSON over `Minted`.

        Args:
            node_id: of the certificate.
            body: JSON of a `SignedMintRequest`.
            task_id, credential_type: what an HTTP path says, where there is one; the body must say the same.

        Raises:
            HostlerError: of the families Denied and InvalidInput for whoever may not; `minter_failed`.
        """
        actor = Actor(kind="node", name=node_id)
        reached_kernel = False
        try:
            request = await self._read(node_id, body, task_id, credential_type)
            reached_kernel = True
            return await self._mint(actor, request)
        except HostlerError as err:
            if reached_kernel:
                self._count(err, node_id)
            else:
                await self.denied_at_edge(actor, err, task_id)
            raise

    async def denied_at_edge(self, actor: Actor, err: HostlerError, task_id: str = "") -> None:
        """The count and the audit's line of what never came to the kernel."""
        self._count(err, actor.name)
        await self._engine.execute(
            RecordRefusal(
                actor=actor,
                action="credential.mint",
                resource_name=f"tasks/{task_id[:128]}" if task_id else "tasks",
                error_code=err.code,
                message=err.message[:500],
                correlation_id="",
            )
        )

    def _count(self, err: HostlerError, node_id: str) -> None:
        self._metrics.mint_denied.labels(err.code).inc()
        _log.warning("credential.denied", error=err, node_id=node_id)

    async def _read(self, node_id: str, body: bytes, task_id: str, credential_type: str) -> MintRequest:
        """Well-formed, of this node, and signed by its runner: the network process alone can ask for nothing."""
        if len(body) > MAX_REQUEST_BYTES:
            raise error("invalid_request", f"a request has at most {MAX_REQUEST_BYTES} bytes")
        signed = decode_json(body, SignedMintRequest)
        request = signed.request()
        if request.node_id != node_id:
            raise error("mint_not_bound", "the request is not of the node whose certificate came with it")
        if task_id not in ("", request.task_id):
            raise error("mint_not_bound", "the request is not of the task in its path")
        if credential_type not in ("", request.credential_type):
            raise error("invalid_request", f"only {credential_type} is issued here", pointer="/credential_type")
        spki = await self._engine.reader.runner_key(node_id)
        if not spki or not PublicKey(spki).verifies(signed.signature, request.signed_bytes()):
            raise error("mint_unsigned", "the request is not signed by the node's runner")
        intent_of(request.credential_type, request.intent)
        return request

    async def _mint(self, actor: Actor, request: MintRequest) -> bytes:
        asked_ms = self._engine.clock.now_ms()
        grant = await self._authorized(actor, request)
        ask = Ask(
            credential_type=request.credential_type,
            intent=intent_of(request.credential_type, request.intent),
            org_id=grant.org_id,
            project_id=grant.project_id,
            node_id=request.node_id,
            task_id=request.task_id,
            now_ms=asked_ms,
            deadline_ms=grant.deadline_ms,
        )
        result = RecordMint(actor=actor, node_id=request.node_id, request=request, number=grant.number)
        try:
            made, name = await self._issue(ask)
            data = part_of(made, request.part)
        except HostlerError as err:
            await self._engine.execute(msgspec.structs.replace(result, error_code=err.code))
            raise
        expires_ms = min(made.expires_at_ms or ask.deadline_ms, ask.deadline_ms)
        await self._engine.execute(msgspec.structs.replace(result, minter=name, expires_at_ms=expires_ms))
        self._metrics.minted.labels(request.credential_type).inc()
        return self._sealed(request, made, data, expires_ms)

    async def _authorized(self, actor: Actor, request: MintRequest) -> MintGrant:
        """Waits a moment for the report that the step has begun: it comes by another way than the request."""
        command = AuthorizeMint(actor=actor, node_id=request.node_id, request=request, wait=True)
        loop, wakes = asyncio.get_running_loop(), self._engine.wakes
        end = loop.time() + _START_S
        while (left := end - loop.time()) > 0:
            seen = wakes.newest(request.operation_id)
            grant: MintGrant | None = await self._engine.execute(command)
            if grant is not None:
                return grant
            await wakes.changed(request.operation_id, seen, left)
        last: MintGrant = await self._engine.execute(msgspec.structs.replace(command, wait=False))
        return last

    async def _issue(self, ask: Ask) -> tuple[Made, str]:
        minter = self._minters.for_(ask)
        try:
            async with asyncio.timeout(_MINT_S):
                made = await minter.mint(ask)
        except TimeoutError as err:
            raise error("minter_failed", f"minter {minter.name} took more than {_MINT_S:.0f} s") from err
        except HostlerError as err:
            if err.code in _ISSUER_SAYS:
                raise
            _log.error("minter.unusable", minter=minter.name, error=err)
            raise error("minter_failed", f"minter {minter.name} cannot be used") from None
        if not isinstance(made.material, CREDENTIAL_TYPES[ask.credential_type].material):
            raise error("minter_failed", f"minter {minter.name} issued what is no {ask.credential_type}")
        return made, minter.name

    def _sealed(self, request: MintRequest, made: Made, data: bytes, expires_ms: int) -> bytes:
        digest = request.digest()
        minted = Minted(
            request_digest=digest,
            credential_type=request.credential_type,
            expires_at_ms=expires_ms,
            one_time=made.one_time,
            sealed=seal(request.public_key, data, digest.encode()),
        )
        payload = canonical_json(msgspec.to_builtins(minted))
        return dsse.to_json(dsse.sign(payload, MINTED_TYPE, (self._signer,)))


def part_of(made: Made, part: str) -> bytes:
    """The material as the step gets it: JSON, or one field of it as it is. Raises `mint_scope_denied`."""
    if not part:
        return msgspec.json.encode(made.material)
    value = getattr(made.material, part, None) if part in made.material.__struct_fields__ else None
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes) or not value:
        raise error("mint_scope_denied", f"the material has no part {part!r}")
    return value
