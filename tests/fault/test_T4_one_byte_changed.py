"""T4, OP-16: whatever is changed after signing, the signature does not fit. In 100 % of mutations."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.admission.admit import admit
from hostler.base.envelope import Envelope, Signature
from hostler.wire.codec_task import encode_task
from hostler.wire.report import TaskStatus
from hostler.wire.task import Policy, ReusedStep, TaskMode, TaskSpec
from support import builders
from support.agent import core, refused
from support.keys import Keys

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
SPEC = builders.task(KEYS, CATALOG)
SENT = builders.envelope(KEYS, SPEC)
VIEW = builders.view(KEYS, CATALOG)
NOW = builders.NOW


def other(name: str, value: Any) -> Any:
    special: dict[str, Any] = {
        "steps": (msgspec.structs.replace(SPEC.steps[0], command_profile="evil"),),
        "policy": Policy(enabled=False),
        "mode": TaskMode.PLAN,
        "reused": (ReusedStep("write", "0" * 64, b"{}"),),
    }
    if name in special:
        return special[name]
    return value + (b"x" if isinstance(value, bytes) else 1 if isinstance(value, int) else "x")


@pytest.mark.parametrize("field", TaskSpec.__struct_fields__)
def test_T4_OP_16_each_field_changed_in_turn_is_bad_signature(field: str) -> None:
    changed = builders.changed(SPEC, **{field: other(field, getattr(SPEC, field))})
    payload = encode_task(changed)
    assert payload != SENT.payload
    verdict = admit(Envelope(payload, SENT.payload_type, SENT.signatures), VIEW, NOW)
    assert refused(verdict) == ("bad_signature", "signature")


@pytest.mark.parametrize("field", type(SPEC.steps[0]).__struct_fields__)
def test_T4_each_field_of_a_step_changed_in_turn_is_bad_signature(field: str) -> None:
    value = getattr(SPEC.steps[0], field)
    changed = not value if isinstance(value, bool) else other(field, value)
    step = msgspec.structs.replace(SPEC.steps[0], **{field: changed})
    payload = encode_task(builders.changed(SPEC, steps=(step,)))
    assert payload != SENT.payload
    verdict = admit(Envelope(payload, SENT.payload_type, SENT.signatures), VIEW, NOW)
    assert refused(verdict) == ("bad_signature", "signature")


def test_T4_every_single_bit_of_the_payload_counts() -> None:
    for position in range(len(SENT.payload)):
        flipped = bytearray(SENT.payload)
        flipped[position] ^= 1 << (position % 8)
        verdict = admit(Envelope(bytes(flipped), SENT.payload_type, SENT.signatures), VIEW, NOW)
        assert refused(verdict) == ("bad_signature", "signature")


def test_T4_a_thousand_random_mutations_are_all_refused_before_anything_is_parsed() -> None:
    rng = random.Random(4)
    for _ in range(1000):
        data = bytearray(SENT.payload)
        match rng.randrange(3):
            case 0:
                data[rng.randrange(len(data))] = rng.randrange(256)
            case 1:
                del data[rng.randrange(len(data)) :]
            case _:
                data[rng.randrange(len(data)) : 0] = rng.randbytes(rng.randrange(1, 9))
        if bytes(data) == SENT.payload:
            continue
        verdict = admit(Envelope(bytes(data), SENT.payload_type, SENT.signatures), VIEW, NOW)
        assert refused(verdict) == ("bad_signature", "signature")
        assert verdict.task_id == ""  # nothing of an unverified payload is believed


def test_T4_every_byte_of_the_signature_counts() -> None:
    (good,) = SENT.signatures
    for position in range(len(good.sig)):
        flipped = bytearray(good.sig)
        flipped[position] ^= 0x10
        signatures = (Signature(good.keyid, bytes(flipped)),)
        verdict = admit(Envelope(SENT.payload, SENT.payload_type, signatures), VIEW, NOW)
        assert refused(verdict) == ("bad_signature", "signature")


async def test_T4_an_altered_envelope_leaves_one_signed_receipt_and_nothing_else(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        sent = builders.envelope(node.keys, builders.task(node.keys, node.catalog))
        altered = Envelope(sent.payload[:-1] + b"x", sent.payload_type, sent.signatures)
        assert refused(await node.deliver(altered)) == ("bad_signature", "signature")
        (report,) = await node.outbox()
        assert (report.status, report.error_code, report.task_id) == (TaskStatus.REFUSED, "bad_signature", "")
        assert len(report.envelope_digest) == 64
        assert node.files() == []
        assert node.chain().ok
        assert node.chain().length == 1
        assert node.journal.high_sequence == 0


async def test_T4_a_flood_of_forgeries_is_counted_not_written(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        sent = builders.envelope(node.keys, builders.task(node.keys, node.catalog))
        for number in range(500):
            await node.deliver(Envelope(sent.payload + b"%d" % number, sent.payload_type, sent.signatures))
        assert len(node.journal.receipts()) == 60
        assert node.journal.refusals_unwritten == 440
        node.clock.forward(60_000)
        await node.deliver(Envelope(sent.payload + b"later", sent.payload_type, sent.signatures))
        assert len(node.journal.receipts()) == 61
        assert node.chain().ok
