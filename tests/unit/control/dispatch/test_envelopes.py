"""What the control plane signs is what a node admits (OP-16), and nothing of it can be left out."""

import msgspec
import pytest

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted, AdmittedCancel
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import open_catalog
from hostler.control.kernel.commands import CancelOperation
from hostler.control.kernel.model import Settings
from hostler.wire.codec_node import decode_envelope
from hostler.wire.task import Policy
from support.builders import catalog_bundle, definition, view
from support.control import USER, enrolment, fleet_in, token
from support.keys import NOW, Keys

PROFILE = CommandProfile(id="hello", command="/bin/echo", args=("hi",))
STEP = StepTemplate(id="say", kind="command.exec_allowlisted", params={"profile": "hello"})
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"word": {"type": "string", "default": "ü"}, "size": {"type": "integer"}},
}


async def delivered(tmp_path, *, policy: Policy | None = None, cancel: bool = False):
    """The envelopes that a node gets, and how that node looks at them."""
    keys = Keys()
    made = definition(STEP, inputs=SCHEMA)
    async with fleet_in(tmp_path, keys=keys, settings=Settings(policy=policy or Policy())) as fleet:
        await fleet.publish(made, commands=[PROFILE])
        await fleet.execute(token("t1", "gpu-1"))
        command = msgspec.structs.replace(enrolment("t1", keys.node.public.spki_der), thumbprint=keys.thumbprint)
        node_id = (await fleet.execute(command)).node_id
        node = _FakeNode(node_id)
        await fleet.connect(node)
        operation_id = await fleet.submit(node, inputs={"size": 3})
        if cancel:
            await fleet.execute(CancelOperation(actor=USER, project_id="train", operation_id=operation_id))
        rows = await fleet.engine.reader.undelivered(node_id, 10)
        task = (await fleet.operation(operation_id)).tasks[0]
    manifest, documents = catalog_bundle(keys, [made], [PROFILE])
    catalog = open_catalog(manifest, documents, keys.trust(), NOW)
    seen = view(keys, catalog, node_id=node_id, capabilities={})
    return [decode_envelope(data) for _, data in rows], seen, task


class _FakeNode:
    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.high_sequence = 0
        self.open: dict[str, object] = {}


STRICT = Policy(max_concurrency=3, timeout_seconds=60, allowed_target_kinds=("node",))


@pytest.mark.parametrize("policy", [None, STRICT])
async def test_OP_16_a_signed_task_passes_every_gate_of_a_real_node(tmp_path, policy) -> None:
    (envelope,), seen, task = await delivered(tmp_path, policy=policy)
    verdict = admit(envelope, seen, NOW)
    assert isinstance(verdict, Admitted), verdict
    assert verdict.inputs == {"size": 3, "word": "ü"}
    assert verdict.envelope_digest == task.envelope_digest
    assert verdict.spec.steps[0].command_digest == PROFILE.digest()
    assert verdict.spec.timeout_seconds == (60 if policy else 7200)


async def test_OP_17_a_signed_cancel_passes_the_gates_of_a_real_node(tmp_path) -> None:
    (task, cancel), seen, _ = await delivered(tmp_path, cancel=True)
    assert isinstance(admit(task, seen, NOW), Admitted)
    assert isinstance(admit(cancel, seen, NOW), AdmittedCancel)


async def test_the_window_tolerates_a_clock_a_minute_slow_and_ends_on_time(tmp_path) -> None:
    (envelope,), seen, _ = await delivered(tmp_path)
    assert isinstance(admit(envelope, seen, NOW - 60_000), Admitted)
    assert admit(envelope, seen, NOW + 600_000).error_code == "expired"
    assert admit(envelope, seen, NOW - 60_001).error_code == "not_yet_valid"
