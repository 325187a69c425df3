"""Events → counters (OB-03, OB-04). What a label may say is fixed beforehand, so no node can make series."""

from collections.abc import Iterable

import msgspec

from hostler.base.codes import CODES
from hostler.base.logs import get_logger
from hostler.catalog.kinds import KINDS
from hostler.control.kernel.event_types import EVENT_TYPES, REFUSED
from hostler.control.kernel.events import PROGRESS, TERMINAL
from hostler.control.kernel.rows import EventRow
from hostler.control.metrics import Metrics
from hostler.wire.report import StepStatus

_log = get_logger("hostler.control.metering")
OTHER, REFUSALS = "other", "refused"
STEP_ENDS = frozenset(status.value for status in StepStatus if status is not StepStatus.RUNNING)
DENIALS = tuple(c for c in CODES if c.startswith("mint") or c in ("no_minter", "revoked", "certificate_invalid"))
_STATUS = {type_: status for status, type_ in TERMINAL.items()}


class _Step(msgspec.Struct, frozen=True):
    step_kind: str = ""
    step_status: str = ""
    duration_ms: int = 0


_step = msgspec.json.Decoder(_Step)


class Metering:
    """Give `take` to `Engine.watch`. Every series that an alert asks for is there from the start, at zero."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        for type_ in (*EVENT_TYPES, REFUSALS):
            metrics.events.labels(type_)
        for status in TERMINAL:
            metrics.operations.labels(status)
        for kind in KINDS:
            metrics.steps.labels(kind, "failed")
        for code in DENIALS:
            metrics.mint_denied.labels(code)

    def take(self, events: Iterable[EventRow]) -> None:
        """Counts; never raises, as the commit it is told of has happened."""
        for event in events:
            self._metrics.events.labels(_type(event.type)).inc()
            if event.type == PROGRESS:
                self._count_step(event)
            elif status := _STATUS.get(event.type):
                self._metrics.operations.labels(status).inc()

    def _count_step(self, event: EventRow) -> None:
        try:
            step = _step.decode(event.body)
        except msgspec.MsgspecError:
            _log.warning("metering.event_unreadable", type=event.type)
            return
        if step.step_status not in STEP_ENDS:
            return
        kind = step.step_kind if step.step_kind in KINDS else OTHER
        self._metrics.steps.labels(kind, step.step_status).inc()
        self._metrics.step_seconds.labels(kind).observe(step.duration_ms / 1000)


def _type(type_: str) -> str:
    if type_ in EVENT_TYPES:
        return type_
    return REFUSALS if type_.endswith(REFUSED) else OTHER
