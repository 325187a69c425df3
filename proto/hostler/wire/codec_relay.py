"""Frames of a relay to and from protobuf."""

from typing import Any

from hostler.base.errors import error
from hostler.v1 import node_pb2 as pb
from hostler.wire import relay
from hostler.wire.relay import CHUNK, RelayFrame

_TYPES: dict[str, tuple[Any, Any]] = {
    "open": (relay.RelayOpen, pb.RelayOpen),
    "data": (relay.RelayData, pb.RelayData),
    "window": (relay.RelayWindow, pb.RelayWindow),
    "resize": (relay.RelayResize, pb.RelayResize),
    "end": (relay.RelayEnd, pb.RelayEnd),
    "beat": (relay.RelayBeat, pb.RelayBeat),
}
_NAMES = {ours: name for name, (ours, _) in _TYPES.items()}


def relay_message(frame: RelayFrame) -> pb.RelayFrame:
    name = _NAMES[type(frame)]
    fields = {field: getattr(frame, field) for field in frame.__struct_fields__}
    return pb.RelayFrame(**{name: _TYPES[name][1](**fields)})


def relay_value(message: pb.RelayFrame) -> RelayFrame:
    """Raises `invalid_request` for a frame without a body, and for one that is longer than a frame may be."""
    name = message.WhichOneof("body")
    if name not in _TYPES:
        raise error("invalid_request", "a relay frame has no body known here")
    ours, body = _TYPES[name][0], getattr(message, name)
    frame: RelayFrame = ours(**{field: getattr(body, field) for field in ours.__struct_fields__})
    if isinstance(frame, relay.RelayData) and len(frame.data) > CHUNK:
        raise error("invalid_request", f"a relay frame of {len(frame.data)} bytes; {CHUNK} are the most")
    return frame
