"""What every gate says of one envelope, also after the first that refuses: for people, nothing is admitted here."""

import msgspec

from hostler.agent.admission.admit import CANCEL, TASK
from hostler.agent.admission.case import Case
from hostler.agent.admission.view import AdmissionView
from hostler.base.digest import sha256_hex
from hostler.base.envelope import CANCEL_TYPE, Envelope
from hostler.base.errors import HostlerError
from hostler.wire.codec_node import encode_envelope

PASSED, REFUSED, NOT_JUDGED = "passed", "refused", "not judged"
# What the gates behind these look at is only there when they have passed.
_NEEDED = frozenset({"signature", "form", "catalog", "inputs"})


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict` is `passed`, `refused`, `replayed` (the first result would be the answer), or `not judged`."""

    gate: str
    verdict: str
    error_code: str = ""
    message: str = ""
    hint: str = ""


def explain(sent: Envelope, view: AdmissionView, now_ms: int) -> list[Judged]:
    """One entry for each gate, in the order in which `admit` asks them."""
    data = encode_envelope(sent)
    is_task = sent.payload_type != CANCEL_TYPE
    case = Case(sent, view, now_ms, data, sha256_hex(data), is_task)
    judged: list[Judged] = []
    blocked = ""
    for name, gate in (TASK if is_task else CANCEL).items():
        if blocked:
            judged.append(Judged(gate=name, verdict=NOT_JUDGED, message=blocked))
            continue
        try:
            replayed = gate(case)
        except HostlerError as err:
            judged.append(Judged(gate=name, verdict=REFUSED, error_code=err.code, message=err.message, hint=err.hint))
            blocked = f"needs what gate {name} refused" if name in _NEEDED else ""
            continue
        if replayed is not None:
            message = "it runs here now" if replayed.open else "it ran here before; its first result is the answer"
            judged.append(Judged(gate=name, verdict="replayed", error_code="replayed", message=message))
            blocked = "nothing new would run"
            continue
        judged.append(Judged(gate=name, verdict=PASSED))
    return judged
