"""`handover.certify`: the node's word that it is clean after an allocation, resting on its own receipts (AL-06).

It reads nothing but the journal: every link of the chain, the erased disks and the residue check have to stand
there as succeeded, in order, with nothing failed after them.
"""

from typing import Any

import msgspec

from hostler.agent.host.holdings import CERTIFICATE
from hostler.agent.journal.rows import PastStep
from hostler.agent.steps.allocation import check_allocation, check_links, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import sha256_hex
from hostler.base.errors import error
from hostler.catalog.params.reclaim import HandoverCertify
from hostler.pki.handover import MOST_RECEIPTS

GOOD = ("succeeded", "reused")


class HandoverCertifyKind:
    name = "handover.certify"

    async def plan(self, view: StepView) -> Plan:
        allocation = check_allocation(view)
        return Plan((Change(action="sign", target=f"hand-over after allocation {allocation}"),))

    async def apply(self, context: StepContext) -> Outcome:
        allocation = check_allocation(context)
        predicate = _predicate(context, allocation)
        certificate = context.certify(predicate)
        context.host.holdings.write(allocation, CERTIFICATE, certificate)
        await context.save_checkpoint({"certificate_digest": sha256_hex(certificate)})
        return Outcome(outputs=_said(context, certificate))

    async def probe(self, view: StepView) -> Probe:
        """Only the very document of this step counts; signing another one is harmless."""
        certificate = view.host.holdings.read(check_allocation(view), CERTIFICATE)
        if certificate is None or view.checkpoint.get("certificate_digest") != sha256_hex(certificate):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=Outcome(outputs=_said(view, certificate)))


KIND = HandoverCertifyKind()


def _said(view: StepView, certificate: bytes) -> dict[str, Any]:
    return outputs(view, certificate=certificate.decode(), certificate_digest=sha256_hex(certificate))


def _predicate(context: StepContext, allocation: str) -> dict[str, Any]:
    """Raises `link_missing`."""
    params: HandoverCertify = context.params
    links = check_links(context, params.after)
    past = context.past()
    mine = [step for step in past if step.task_id == context.task_id]
    steps = [step for link in links for step in past if step.task_id == link.task_id] + mine
    for step in newest(steps):
        if step.state not in GOOD:
            raise error("link_missing", f"step {step.step_id} of {step.operation_type} is {step.state}, not succeeded")
    checked = [step for step in mine if step.kind == "residue.check" and step.state in GOOD]
    if params.after and not checked:
        raise error("link_missing", f"nothing has checked for residue of allocation {allocation} in this task")
    said = _outputs(checked[-1]) if checked else {}
    return {
        "allocation_id": allocation,
        "task_id": context.task_id,
        "baseline_digest": said.get("baseline_digest", ""),
        "inventory_digest": said.get("inventory_digest", ""),
        "findings": 0,
        "devices": [each for step in newest(mine) if step.kind == "device.sanitize" for each in _devices(step)],
        "links": list(params.after),
        "receipts": [_named(step) for step in newest(steps)][-MOST_RECEIPTS:],
        "certified_at_ms": context.host.clock.now_ms(),
    }


def newest(steps: list[PastStep]) -> list[PastStep]:
    """Of each step of each task its newest end, in order: a retry stands for what it repeated."""
    last = {(step.task_id, step.step_id): step for step in steps}
    return sorted(last.values(), key=lambda step: step.number)


def _named(step: PastStep) -> dict[str, Any]:
    return {
        "operation_type": step.operation_type,
        "operation_id": step.operation_id,
        "task_id": step.task_id,
        "step_id": step.step_id,
        "step_kind": step.kind,
        "receipt_digest": step.receipt_digest,
        "finished_at_ms": step.finished_ms,
    }


def _devices(step: PastStep) -> list[dict[str, Any]]:
    erased: list[dict[str, Any]] = _outputs(step).get("erased", [])
    return erased


def _outputs(step: PastStep) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(step.outputs_json) if step.outputs_json else {}
    return found
