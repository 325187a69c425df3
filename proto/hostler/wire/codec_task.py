"""TaskSpec and CancelSpec to and from their canonical protobuf bytes.

Decoding refuses everything that our own encoder would not have produced: unknown fields, fields sent
twice, other orders, other spellings. It is called on bytes whose signature has been verified.
"""

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from hostler.base.errors import error
from hostler.v1 import task_pb2 as pb
from hostler.wire.task import CancelSpec, Policy, ReusedStep, StepSpec, TaskMode, TaskSpec

M = TypeVar("M", bound=Message)

_MODES = {TaskMode.APPLY: pb.TASK_MODE_APPLY, TaskMode.PLAN: pb.TASK_MODE_PLAN}
_MODES_BACK = {number: mode for mode, number in _MODES.items()}
_NESTED = {"steps", "policy", "mode", "reused"}
_TASK_FIELDS = tuple(f for f in TaskSpec.__struct_fields__ if f not in _NESTED)
_STEP_FIELDS = StepSpec.__struct_fields__
_REUSED_FIELDS = ReusedStep.__struct_fields__
_CANCEL_FIELDS = CancelSpec.__struct_fields__
_POLICY_FIELDS = (
    "enabled",
    "max_concurrency",
    "timeout_seconds",
    "require_signature_verification",
    "max_artifact_size_bytes",
)


def encode_task(spec: TaskSpec) -> bytes:
    """Canonical bytes of the task, ready to be signed."""
    message = pb.TaskPayload(
        steps=[pb.StepSpec(**_fields(step, _STEP_FIELDS)) for step in spec.steps],
        policy=_policy_message(spec.policy),
        mode=_MODES[spec.mode],
        reused=[pb.ReusedStep(**_fields(step, _REUSED_FIELDS)) for step in spec.reused],
        **_fields(spec, _TASK_FIELDS),
    )
    return message.SerializeToString(deterministic=True)


def decode_task(payload: bytes) -> TaskSpec:
    """The reverse of `encode_task`.

    Raises:
        HostlerError: `malformed_envelope` or `unknown_signed_field`.
    """
    message = _parse(payload, pb.TaskPayload)
    if message.mode not in _MODES_BACK:
        raise error("malformed_envelope", f"task mode {message.mode} does not exist")
    return TaskSpec(
        steps=tuple(StepSpec(**_fields(step, _STEP_FIELDS)) for step in message.steps),
        policy=_policy(message.policy),
        mode=_MODES_BACK[message.mode],
        reused=tuple(ReusedStep(**_fields(step, _REUSED_FIELDS)) for step in message.reused),
        **_fields(message, _TASK_FIELDS),
    )


def encode_cancel(spec: CancelSpec) -> bytes:
    return pb.CancelPayload(**_fields(spec, _CANCEL_FIELDS)).SerializeToString(deterministic=True)


def decode_cancel(payload: bytes) -> CancelSpec:
    """The reverse of `encode_cancel`; raises as `decode_task` does."""
    return CancelSpec(**_fields(_parse(payload, pb.CancelPayload), _CANCEL_FIELDS))


def _fields(source: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _parse(payload: bytes, type_: type[M]) -> M:
    message = type_()
    try:
        message.ParseFromString(payload)
    except DecodeError as err:
        raise error("malformed_envelope", "the payload is no protobuf message") from err
    stripped = type_()
    stripped.CopyFrom(message)
    stripped.DiscardUnknownFields()
    if stripped.SerializeToString(deterministic=True) != payload:
        if message.ByteSize() != stripped.ByteSize():
            raise error("unknown_signed_field", "the signed payload holds a field unknown here")
        raise error("malformed_envelope", "the payload is not in canonical form")
    return message


def _policy_message(policy: Policy) -> pb.Policy:
    return pb.Policy(
        allowed_artifact_sources=policy.allowed_artifact_sources or (),
        restrict_artifact_sources=policy.allowed_artifact_sources is not None,
        allowed_target_kinds=policy.allowed_target_kinds or (),
        restrict_target_kinds=policy.allowed_target_kinds is not None,
        **_fields(policy, _POLICY_FIELDS),
    )


def _policy(message: pb.Policy) -> Policy:
    sources, kinds = tuple(message.allowed_artifact_sources), tuple(message.allowed_target_kinds)
    return Policy(
        allowed_artifact_sources=sources if message.restrict_artifact_sources else None,
        allowed_target_kinds=kinds if message.restrict_target_kinds else None,
        **_fields(message, _POLICY_FIELDS),
    )
