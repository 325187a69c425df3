"""`artifact.verify`: a file's digest and length, and its signature where one is required (SK-03).

Fails closed: where policy wants a signature and there is none, or no key to check it with, the
answer is no (A8). Reads only, and therefore may always be run again. A wrong file is left where it
is: its path comes from the operation's inputs, and those do not get to remove files.
"""

import asyncio
import contextlib

import msgspec

from hostler.agent.host.files import FileInfo, Stopped
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
from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.artifact import Verify
from hostler.pki import dsse
from hostler.pki.keys import PublicKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_SIGNATURE_BYTES = 1024 * 1024
PROGRESS_BYTES = 16 * 1024 * 1024


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str]
    name: str = ""


class _Statement(msgspec.Struct, frozen=True):
    type: str = msgspec.field(name="_type")
    subject: tuple[_Subject, ...]


class VerifyKind:
    name = "artifact.verify"

    async def plan(self, view: StepView) -> Plan:
        params: Verify = view.params
        signed = f", signature {params.signature_path or 'required'}" if _wants_signature(view) else ""
        detail = f"sha256 {params.sha256}{signed}"
        return Plan((Change(action="check", target=params.path, detail=detail, bytes=params.size_bytes),))

    async def apply(self, context: StepContext) -> Outcome:
        params: Verify = context.params
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
    return view.policy.require_signature_verification or bool(view.params.signature_path)


def _signer(view: StepView) -> str:
    """The id of the key that signed. Raises `verifier_missing` or `signature_missing`."""
    params: Verify = view.params
    if not view.artifact_keys:
        raise error("verifier_missing", f"the keyset holds no key to check {params.path} with")
    if not params.signature_path:
        raise error("signature_missing", f"policy requires a signature of {params.path}, and none is named")
    try:
        envelope = dsse.from_json(view.host.files.read(params.signature_path, MAX_SIGNATURE_BYTES))
    except HostlerError as err:
        raise error("signature_missing", f"{params.signature_path} cannot be read as a signature") from err
    for key in map(PublicKey, view.artifact_keys):
        with contextlib.suppress(HostlerError):
            if _covers(dsse.verify(envelope, PAYLOAD_TYPE, [key]), params.sha256):
                return key.key_id
    raise error("signature_missing", f"{params.signature_path} is no signature of this file by a key of the keyset")


def _covers(payload: bytes, sha256: str) -> bool:
    try:
        statement = msgspec.json.decode(payload, type=_Statement)
    except msgspec.MsgspecError:
        return False
    digests = [subject.digest.get("sha256", "") for subject in statement.subject]
    return statement.type == STATEMENT_TYPE and sha256 in digests


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
