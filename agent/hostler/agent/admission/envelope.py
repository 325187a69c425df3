"""Signature first, form second: no byte is parsed before a trusted dispatch key has vouched for it."""

from hostler.agent.admission.case import Case
from hostler.base.envelope import CANCEL_TYPE, TASK_TYPE
from hostler.base.errors import error
from hostler.pki.keyset import KeyRole
from hostler.wire.codec_task import decode_cancel, decode_task
from hostler.wire.task import CancelSpec, TaskSpec

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_STEPS = 256
MAX_ID = 128
MAX_TRACEPARENT = 256
MIN_NONCE_BYTES = 16
BIGGEST = 2**63 - 1  # what the journal can hold; a mark beyond it could never rise again (T8)

_TASK_IDS = ("task_id", "operation_id", "attempt_uid", "org_id", "project_id", "correlation_id")
_CANCEL_IDS = ("task_id", "operation_id", "attempt_uid", "correlation_id")


def signature(case: Case) -> None:
    """Raises `malformed_envelope`, `untrusted_key`, `bad_signature` or `keyset_stale` (T4, T6)."""
    envelope = case.envelope
    if len(envelope.payload) > MAX_PAYLOAD_BYTES:
        raise error("malformed_envelope", f"the payload is longer than {MAX_PAYLOAD_BYTES} bytes")
    if envelope.payload_type not in (TASK_TYPE, CANCEL_TYPE):
        raise error("malformed_envelope", "the payload type is neither a task nor a cancel")
    case.payload = case.view.trust.verify(envelope, envelope.payload_type, KeyRole.DISPATCH, case.now_ms)
    case.authentic = True


def form(case: Case) -> None:
    """Raises `malformed_envelope` or `unknown_signed_field` (T5)."""
    if case.is_task:
        task = decode_task(case.payload)
        case.spec = task
        _task_form(task)
    else:
        cancel = decode_cancel(case.payload)
        case.spec = cancel
        _ids(cancel, _CANCEL_IDS)
        _marks(cancel)


def _task_form(task: TaskSpec) -> None:
    _ids(task, _TASK_IDS)
    _marks(task)
    if task.attempt_number < 1:
        raise error("malformed_envelope", "attempts are counted from 1")
    if len(task.traceparent) > MAX_TRACEPARENT:
        raise error("malformed_envelope", f"traceparent is longer than {MAX_TRACEPARENT} characters")
    if task.catalog_version > BIGGEST:
        raise error("malformed_envelope", "catalog_version is out of range")
    if not 1 <= len(task.steps) <= MAX_STEPS:
        raise error("malformed_envelope", f"a task has 1 to {MAX_STEPS} steps")
    names = [step.step_id for step in task.reused]
    if len(set(names)) != len(names) or not set(names) <= {step.step_id for step in task.steps}:
        raise error("malformed_envelope", "the reused steps are not steps of the task, once each")


def _ids(spec: TaskSpec | CancelSpec, names: tuple[str, ...]) -> None:
    for name in names:
        value: str = getattr(spec, name)
        if not 1 <= len(value) <= MAX_ID or not value.isascii() or not value.isprintable():
            raise error("malformed_envelope", f"{name} is no id of 1 to {MAX_ID} plain characters")


def _marks(spec: TaskSpec | CancelSpec) -> None:
    if len(spec.nonce) < MIN_NONCE_BYTES:
        raise error("malformed_envelope", f"the nonce is shorter than {MIN_NONCE_BYTES} bytes")
    for name in ("sequence", "control_epoch"):
        if getattr(spec, name) > BIGGEST:
            raise error("malformed_envelope", f"{name} is out of range")
    if spec.expires_at_ms <= spec.not_before_ms:
        raise error("malformed_envelope", "the validity window is empty")
