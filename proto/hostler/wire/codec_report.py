"""Reports to and from protobuf. The sender is authenticated, its data is still only data."""

from typing import Any

from google.protobuf.message import DecodeError, Message

from hostler.base.errors import error
from hostler.v1 import report_pb2 as pb
from hostler.wire.report import (
    Artifact,
    Body,
    LogLine,
    Report,
    StepProgress,
    StepReport,
    StepStatus,
    TaskReport,
    TaskStatus,
)

_STEP: dict[StepStatus, Any] = {status: pb.StepStatus.Value(f"STEP_STATUS_{status.name}") for status in StepStatus}
_STEP_BACK = {number: status for status, number in _STEP.items()}
_TASK: dict[TaskStatus, Any] = {status: pb.TaskStatus.Value(f"TASK_STATUS_{status.name}") for status in TaskStatus}
_TASK_BACK = {number: status for status, number in _TASK.items()}
_STEP_FIELDS = tuple(f for f in StepReport.__struct_fields__ if f not in ("status", "artifacts"))
_ARTIFACT_FIELDS = Artifact.__struct_fields__
_TASK_FIELDS = tuple(f for f in TaskReport.__struct_fields__ if f != "status")


def encode_body(body: Body) -> bytes:
    """Bytes of an outbox row, without its sequence number."""
    data: bytes = _report_message(Report(0, body)).SerializeToString()
    return data


def decode_body(data: bytes) -> Body:
    """The reverse of `encode_body`.

    Raises:
        HostlerError: `invalid_request`.
    """
    message = pb.Report()
    try:
        message.ParseFromString(data)
    except DecodeError as err:
        raise error("invalid_request", "a report is no protobuf message") from err
    return from_message(message).body


def with_sequence(outbox_seq: int, data: bytes) -> pb.Report:
    """The message of a stored outbox row, without decoding its body."""
    message = pb.Report.FromString(data)
    message.outbox_seq = outbox_seq
    return message


def from_message(message: pb.Report) -> Report:
    """Raises `invalid_request` for an absent body or an unknown status."""
    which = message.WhichOneof("body")
    try:
        if which == "step":
            step = message.step
            status = _STEP_BACK[step.status]
            artifacts = tuple(Artifact(**_pick(one, _ARTIFACT_FIELDS)) for one in step.artifacts)
            report = StepReport(status=status, artifacts=artifacts, **_pick(step, _STEP_FIELDS))
            return Report(message.outbox_seq, report)
        if which == "task":
            task = message.task
            task_status = _TASK_BACK[task.status]
            return Report(message.outbox_seq, TaskReport(status=task_status, **_pick(task, _TASK_FIELDS)))
    except KeyError as err:
        raise error("invalid_request", "a report holds a status that does not exist") from err
    if which == "log":
        return Report(message.outbox_seq, LogLine(**_pick(message.log, LogLine.__struct_fields__)))
    raise error("invalid_request", "a report has no body")


def progress_message(progress: StepProgress) -> pb.StepProgress:
    return pb.StepProgress(**_pick(progress, StepProgress.__struct_fields__))


def progress_from(message: pb.StepProgress) -> StepProgress:
    return StepProgress(**_pick(message, StepProgress.__struct_fields__))


def _report_message(report: Report) -> pb.Report:
    body = report.body
    if isinstance(body, StepReport):
        artifacts = [pb.Artifact(**_pick(one, _ARTIFACT_FIELDS)) for one in body.artifacts]
        step = pb.StepReport(status=_STEP[body.status], artifacts=artifacts, **_pick(body, _STEP_FIELDS))
        return pb.Report(outbox_seq=report.outbox_seq, step=step)
    if isinstance(body, TaskReport):
        task = pb.TaskReport(status=_TASK[body.status], **_pick(body, _TASK_FIELDS))
        return pb.Report(outbox_seq=report.outbox_seq, task=task)
    line = pb.LogLine(**_pick(body, LogLine.__struct_fields__))
    return pb.Report(outbox_seq=report.outbox_seq, log=line)


def to_message(report: Report) -> pb.Report:
    return _report_message(report)


def _pick(source: Message | Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}
