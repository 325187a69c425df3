"""One envelope on its way through the gates."""

from dataclasses import dataclass, field
from typing import Any

from hostler.agent.admission.known import Known, Open
from hostler.agent.admission.view import AdmissionView
from hostler.base.envelope import Envelope
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.wire.task import CancelSpec, TaskSpec


@dataclass
class Case:
    """What is known so far; lives inside one call of `admit`.

    Attributes:
        spec: set once the signature is good and the payload is decoded.
        authentic: a trusted dispatch key signed it.
        addressed: it was meant for this node and its present key.
    """

    envelope: Envelope
    view: AdmissionView
    now_ms: int
    envelope_bytes: bytes
    digest: str
    is_task: bool
    payload: bytes = b""
    spec: TaskSpec | CancelSpec | None = None
    authentic: bool = False
    addressed: bool = False
    definition: Definition | None = None
    commands: dict[str, CommandProfile] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    guarded: tuple[Open, ...] = ()
    known: tuple[Known, ...] = ()

    @property
    def order(self) -> TaskSpec | CancelSpec:
        assert self.spec is not None
        return self.spec

    @property
    def task(self) -> TaskSpec:
        assert isinstance(self.spec, TaskSpec)
        return self.spec
