"""What admission can say. Only `admit` makes these."""

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.base.envelope import Envelope
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.wire.task import CancelSpec, TaskSpec

# Written down a second time on purpose: a gate that vanishes from the table in `admit` makes every
# `Admitted` impossible, so the node refuses instead of running unchecked.
TASK_GATES = (
    "signature",
    "form",
    "target",
    "replay",
    "allocation",
    "epoch",
    "freshness",
    "sequence",
    "storage",
    "catalog",
    "inputs",
    "policy",
    "authority",
    "capability",
)
CANCEL_GATES = ("signature", "form", "target", "replay", "epoch", "freshness", "storage")


class Proof(tuple[str, ...]):
    """The names of the gates an envelope passed, in order."""

    __slots__ = ()


def _demand(proof: Proof, gates: tuple[str, ...]) -> None:
    if not isinstance(proof, Proof) or tuple(proof) != gates:
        raise TypeError("only an envelope that passed every gate is admitted")


@dataclass(frozen=True, eq=False)
class Admitted:
    """A task that may run: verified, ours, fresh, never seen, as the catalog says, allowed here.

    Attributes:
        inputs: decoded and checked against the definition's schema.
        commands: the command profiles its steps name, by id.
        keyset_version: the keyset its signature was checked against.
    """

    proof: Proof
    envelope: Envelope
    envelope_bytes: bytes
    envelope_digest: str
    spec: TaskSpec
    definition: Definition
    commands: dict[str, CommandProfile]
    inputs: dict[str, Any]
    keyset_version: int

    def __post_init__(self) -> None:
        _demand(self.proof, TASK_GATES)


@dataclass(frozen=True, eq=False)
class AdmittedCancel:
    """An order to end a task: `Journal.cancel` says whether there is something to end."""

    proof: Proof
    spec: CancelSpec
    envelope_digest: str

    def __post_init__(self) -> None:
        _demand(self.proof, CANCEL_GATES)


class Replayed(msgspec.Struct, frozen=True):
    """Known already: the first result stands, for ever (T1, RT-06)."""

    task_id: str
    envelope_digest: str
    open: bool


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why not. Nothing happens on the node but one signed receipt.

    Attributes:
        gate: which check said no.
        authentic: the signature was good; without it, the ids below are empty.
        addressed: it was meant for this node and this key; only then does `sequence` count.
        is_task: a task, not a cancel.
    """

    error_code: str
    message: str
    hint: str
    gate: str
    envelope_digest: str
    at_ms: int
    authentic: bool = False
    addressed: bool = False
    is_task: bool = True
    task_id: str = ""
    operation_id: str = ""
    attempt_uid: str = ""
    attempt_number: int = 0
    sequence: int = 0
    correlation_id: str = ""
