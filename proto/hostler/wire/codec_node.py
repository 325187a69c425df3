"""Session messages to and from protobuf."""

from typing import Any

from hostler.base.envelope import Envelope, Signature
from hostler.base.errors import error
from hostler.v1 import envelope_pb2, node_pb2
from hostler.wire import codec_report
from hostler.wire.node import (
    CatalogUpdate,
    Close,
    FromAgent,
    FromControl,
    Heartbeat,
    Hello,
    KeysetUpdate,
    Progress,
    ReportAck,
    Reports,
    Sample,
    TaskAccepted,
    Tasks,
    Welcome,
    WorkerPolicy,
)


def envelope_message(envelope: Envelope) -> envelope_pb2.Envelope:
    return envelope_pb2.Envelope(
        payload=envelope.payload,
        payload_type=envelope.payload_type,
        signatures=[envelope_pb2.Signature(keyid=s.keyid, sig=s.sig) for s in envelope.signatures],
    )


def envelope_from(message: envelope_pb2.Envelope) -> Envelope:
    signatures = tuple(Signature(s.keyid, s.sig) for s in message.signatures)
    return Envelope(message.payload, message.payload_type, signatures)


def encode_envelope(envelope: Envelope) -> bytes:
    """The bytes that are stored and sent again unchanged on every retry."""
    data: bytes = envelope_message(envelope).SerializeToString(deterministic=True)
    return data


def decode_envelope(data: bytes) -> Envelope:
    return envelope_from(envelope_pb2.Envelope.FromString(data))


def agent_message(value: FromAgent) -> node_pb2.AgentMessage:
    if isinstance(value, Reports):
        reports = [codec_report.to_message(report) for report in value.reports]
        return node_pb2.AgentMessage(reports=node_pb2.Reports(reports=reports))
    if isinstance(value, Progress):
        steps = [codec_report.progress_message(step) for step in value.steps]
        return node_pb2.AgentMessage(progress=node_pb2.Progress(steps=steps))
    if isinstance(value, TaskAccepted):
        return node_pb2.AgentMessage(accepted=node_pb2.TaskAccepted(task_ids=value.task_ids))
    if isinstance(value, Hello):
        return node_pb2.AgentMessage(hello=node_pb2.Hello(**_all(value)))
    sample = node_pb2.NodeSample(**_all(value.sample)) if value.sample else None
    return node_pb2.AgentMessage(heartbeat=node_pb2.Heartbeat(**(_all(value) | {"sample": sample})))


def agent_value(message: node_pb2.AgentMessage) -> FromAgent:
    """Raises `invalid_request` for a message without a body."""
    which = message.WhichOneof("body")
    if which == "reports":
        return Reports(tuple(codec_report.from_message(r) for r in message.reports.reports))
    if which == "progress":
        return Progress(tuple(codec_report.progress_from(s) for s in message.progress.steps))
    if which == "accepted":
        return TaskAccepted(tuple(message.accepted.task_ids))
    if which == "hello":
        hello = message.hello
        values = {name: getattr(hello, name) for name in Hello.__struct_fields__}
        values |= {
            "capabilities": dict(hello.capabilities),
            "labels": dict(hello.labels),
            "open_tasks": tuple(hello.open_tasks),
            "envelope_types": tuple(hello.envelope_types),
        }
        return Hello(**values)
    if which == "heartbeat":
        beat = message.heartbeat
        values = {name: getattr(beat, name) for name in Heartbeat.__struct_fields__}
        sample = Sample(**_from(beat.sample, Sample)) if beat.HasField("sample") else None
        return Heartbeat(**(values | {"capabilities": dict(beat.capabilities), "sample": sample}))
    raise error("invalid_request", "an agent message has no body")


def control_message(value: FromControl) -> node_pb2.ControlMessage:
    if isinstance(value, Tasks):
        envelopes = [envelope_message(envelope) for envelope in value.envelopes]
        return node_pb2.ControlMessage(tasks=node_pb2.Tasks(envelopes=envelopes))
    if isinstance(value, ReportAck):
        return node_pb2.ControlMessage(ack=node_pb2.ReportAck(up_to=value.up_to))
    if isinstance(value, Welcome):
        return node_pb2.ControlMessage(welcome=node_pb2.Welcome(**_all(value)))
    if isinstance(value, CatalogUpdate):
        update = node_pb2.CatalogUpdate(manifest=value.manifest, documents=value.documents)
        return node_pb2.ControlMessage(catalog=update)
    if isinstance(value, KeysetUpdate):
        return node_pb2.ControlMessage(keyset=node_pb2.KeysetUpdate(keyset=value.keyset))
    if isinstance(value, WorkerPolicy):
        return node_pb2.ControlMessage(worker_policy=node_pb2.WorkerPolicy(**_all(value)))
    return node_pb2.ControlMessage(close=node_pb2.Close(**_all(value)))


def control_value(message: node_pb2.ControlMessage) -> FromControl:
    """Raises `invalid_request` for a message without a body (also one from a newer control plane)."""
    which = message.WhichOneof("body")
    if which == "tasks":
        return Tasks(tuple(envelope_from(e) for e in message.tasks.envelopes))
    if which == "ack":
        return ReportAck(message.ack.up_to)
    if which == "welcome":
        return Welcome(**_from(message.welcome, Welcome))
    if which == "catalog":
        return CatalogUpdate(message.catalog.manifest, tuple(message.catalog.documents))
    if which == "keyset":
        return KeysetUpdate(message.keyset.keyset)
    if which == "worker_policy":
        return WorkerPolicy(**_from(message.worker_policy, WorkerPolicy))
    if which == "close":
        return Close(**_from(message.close, Close))
    raise error("invalid_request", "a control message has no body known here")


def _all(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _from(message: Any, type_: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in type_.__struct_fields__}
