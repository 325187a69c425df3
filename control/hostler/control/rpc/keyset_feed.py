"""Keysets as messages: everything a node has missed, oldest first, so that each follows from the one before."""

from hostler.control.engine import Engine
from hostler.v1 import node_pb2
from hostler.wire.codec_node import control_message
from hostler.wire.node import KeysetUpdate


def missed(engine: Engine, version: int) -> tuple[bytes, ...]:
    """Every keyset above `version`."""
    return tuple(keyset for number, keyset in engine.published.keysets if number > version)


def missed_messages(engine: Engine, version: int) -> list[node_pb2.ControlMessage]:
    return [control_message(KeysetUpdate(keyset)) for keyset in missed(engine, version)]
