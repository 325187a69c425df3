"""`artifact.verify`: a file's digest and length, and its signature where one is required (SK-03).

Fails closed: where policy wants a signature and there is none, or no key to check it with, the
answer is no (A8). Reads only, and therefore may always be run again. A wrong file is left where it
is: its path comes from the operation's inputs, and those do not get to remove files.
"""

import asyncio

from hostler.agent.host.files import FileInfo, Stopped
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.signatures import Wanted, signer_of
from hostler.agent.steps.artifact_access import access_of, owner_of, refuse_source
from hostler.agent.steps.contract import (
    Change,
    FileState,
    Outcome,
    Plan,
    Probe,
    StepContext,
    StepView,
    Truth,
)
from hostler.base.digest import same_digest, sha256_hex
from hostler.base.envelope import Envelope
from hostler.base.errors import HostlerError, error
from hostler.catalog.oci import reference_of
from hostler.catalog.params.artifact import Verify
from hostler.pki.cosign import IN_TOTO, check_statement, read_signature, statement_of
from hostler.pki.keys import PublicKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = IN_TOTO
MAX_SIGNATURE_BYTES = 1024 * 1024
MAX_SIGNED_WHOLE = 64 * 1024 * 1024
PROGRESS_BYTES = 16 * 1024 * 1024


class VerifyKind:
    name = "artifact.verify"

    async def plan(self, view: StepView) -> Plan:
        params: Verify = view.params
        _check_shape(params)
        if params.reference:
            refuse_source(view, reference_of(params.reference).source)
            return Plan((Change(action="check", target=params.reference, detail="signature in the registry"),))
        signed = f", signature {params.signature_path or 'required'}" if _wants_signature(view) else ""
        detail = f"sha256 {params.sha256}{signed}"
        return Plan((Change(action="check", target=params.path, detail=detail, bytes=params.size_bytes),))

    async def apply(self, context: StepContext) -> Outcome:
        params: Verify = context.params
        _check_shape(params)
        if params.reference:
            return await _in_registry(context)
        signer = await context.host.blocking.run(lambda: _signer(context)) if _wants_signature(context) else ""
        loop = asyncio.get_running_loop()
        found = await context.host.blocking.run(lambda: _hash(context, loop))
        if params.size_bytes and found.size_bytes != params.size_bytes:
            raise error("size_mismatch", f"{params.path} has {found.size_bytes} bytes, expected {params.size_bytes}")
        if not same_digest(found.sha256, params.sha256):
            raise error("digest_mismatch", f"{params.path} has sha256 {found.sha256}")
        outputs = {"path": params.path, "sha256": found.sha256, "size_bytes": found.size_bytes}
        if signer:
            outputs["signed_by"] = signer
        return Outcome(outputs=outputs, changed=False, files_after=(_state(found),))

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="reads only")


KIND = VerifyKind()


def _wants_signature(view: StepView) -> bool:
    """One that is named is checked, required or not."""
    params: Verify = view.params
    asked = bool(params.signature_path or params.predicate_types or params.predicate)
    return view.policy.require_signature_verification or asked


def _keys(view: StepView) -> list[PublicKey]:
    """Raises `verifier_missing`: with nothing to check by, the answer is no (A8)."""
    if not view.artifact_keys:
        raise error("verifier_missing", f"the keyset holds no key to check {view.params.path or 'the artifact'} with")
    return [PublicKey(key) for key in view.artifact_keys]


def _signer(view: StepView) -> str:
    """The id of the key that signed the file. Raises `verifier_missing` or `signature_missing`."""
    params: Verify = view.params
    keys = _keys(view)
    if not params.signature_path:
        raise error("signature_missing", f"policy requires a signature of {params.path}, and none is named")
    try:
        found = read_signature(view.host.files.read(params.signature_path, MAX_SIGNATURE_BYTES))
    except HostlerError as err:
        raise error("signature_missing", f"{params.signature_path} cannot be read as a signature") from err
    if isinstance(found, Envelope):
        statement, signer = statement_of(found, keys)
        check_statement(statement, params.sha256, params.predicate_types, params.predicate)
        return signer
    if params.predicate_types or params.predicate:
        raise error("signature_missing", f"{params.signature_path} is a bare signature and states nothing")
    return _signer_of_bytes(view, found, keys)


def _signer_of_bytes(view: StepView, signature: bytes, keys: list[PublicKey]) -> str:
    """Of a signature over the file itself: by its digest, or for Ed25519, which needs the bytes, over a small file."""
    params: Verify = view.params
    digest = bytes.fromhex(params.sha256)
    signer = next((key.key_id for key in keys if key.verifies_digest(signature, digest)), "")
    if not signer and view.host.files.info(params.path).size_bytes <= MAX_SIGNED_WHOLE:
        content = view.host.files.read(params.path, MAX_SIGNED_WHOLE)
        fits = same_digest(sha256_hex(content), params.sha256)
        signer = next((key.key_id for key in keys if fits and key.verifies(signature, content)), "")
    if not signer:
        raise error("signature_missing", f"{params.signature_path} is no signature of this file by a key of the keyset")
    return signer


async def _in_registry(context: StepContext) -> Outcome:
    """Asks the registry by the reference's own digest; what was placed from it has that digest already."""
    params: Verify = context.params
    reference = reference_of(params.reference)
    refuse_source(context, reference.source)
    wanted = Wanted(_keys(context), params.predicate_types, params.predicate)
    registry = Registry(reference, access_of(context, params.credential), owner_of(context))
    signer = await signer_of(registry, wanted)
    outputs = {"path": "", "sha256": reference.digest.removeprefix("sha256:"), "size_bytes": 0, "signed_by": signer}
    return Outcome(outputs=outputs, changed=False)


def _check_shape(params: Verify) -> None:
    """Raises `digest_required`: a file has a path and a digest, an artifact of a registry its reference."""
    file = bool(params.path) and bool(params.sha256)
    if file == bool(params.reference) or bool(params.path) != bool(params.sha256):
        raise error("digest_required", "name either a path and its sha256, or a reference")


def _hash(context: StepContext, loop: asyncio.AbstractEventLoop) -> FileInfo:
    """In a worker thread; progress goes back to the loop."""
    params: Verify = context.params
    reason: list[str] = []

    def stop() -> bool:
        if context.cancelled.is_set():
            reason.append("canceled")
        elif context.deadline.passed():
            reason.append("timeout")
        return bool(reason)

    def progress(done: int, total: int) -> None:
        if done % PROGRESS_BYTES == 0 or done >= total:
            loop.call_soon_threadsafe(context.progress, done, total, "bytes")

    try:
        return context.host.files.digest(params.path, progress=progress, stop=stop)
    except Stopped:
        raise error(reason[0], f"hashing {params.path} was stopped") from None


def _state(info: FileInfo) -> FileState:
    return FileState(path=info.path, sha256=info.sha256, size_bytes=info.size_bytes, mode=info.mode)
