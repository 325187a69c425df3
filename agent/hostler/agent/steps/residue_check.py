"""`residue.check`: the host against the baseline from before the tenant; every difference by name (PF-11, R2)."""

import asyncio
import secrets
import stat

import msgspec

from hostler.agent.host.holdings import BASELINE, FINDINGS
from hostler.agent.residue.inventory import deadline_in, take
from hostler.agent.residue.model import Finding, Inventory, compare, decode, encode, summary
from hostler.agent.steps.allocation import check_allocation, check_links, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import same_digest, sha256_hex
from hostler.base.errors import error
from hostler.catalog.params.reclaim import ResidueCheck

MOST_LINES = 2000
CANARY = "/tmp/.hostler-canary-"  # noqa: S108  # where a tenant could have put a file too


class ResidueCheckKind:
    name = "residue.check"

    async def plan(self, view: StepView) -> Plan:
        before = baseline_of(view)
        detail = f"against {len(before.items)} things recorded at {before.taken_ms} ms"
        return Plan((Change(action="check", target=f"allocation {check_allocation(view)}", detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        params: ResidueCheck = context.params
        allocation = check_allocation(context)
        check_links(context, params.after)
        before = await asyncio.to_thread(baseline_of, context)
        deadline = deadline_in(context.host, params.within_seconds, context.deadline)
        canary = await asyncio.to_thread(_plant, context)
        try:
            stop = context.cancelled.is_set
            after = await take(context.host, before.ignored, params.max_entries, deadline, stop)
        finally:
            if canary:
                await asyncio.to_thread(context.host.tenant_trees.remove, canary)
        if stop():
            raise error("canceled", "the residue check was cancelled")
        findings = await asyncio.to_thread(compare, before, after)
        seen = [finding for finding in findings if not canary or finding.name != canary]
        canary_found = not canary or len(seen) < len(findings)
        if after.gaps:  # what was not looked at is not gone
            seen = [finding for finding in seen if finding.change != "gone"]
        _tell(context, seen)
        written = msgspec.json.encode(seen)
        await asyncio.to_thread(context.host.holdings.write, allocation, FINDINGS, written)
        _judge(after, seen, canary_found=canary_found)
        digests = {"baseline_digest": sha256_hex(encode(before)), "inventory_digest": sha256_hex(encode(after))}
        return Outcome(outputs=outputs(context, **digests), changed=False)

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="the host is looked at anew")


KIND = ResidueCheckKind()


def baseline_of(view: StepView) -> Inventory:
    """The document on disk, if it is the one that this node's newest receipt of it names.

    Raises:
        HostlerError: `baseline_unusable`.
    """
    allocation = check_allocation(view)
    taken = [s for s in view.past() if s.kind == "baseline.take" and s.state in ("succeeded", "reused")]
    if not taken:
        raise error("baseline_unusable", f"no baseline of allocation {allocation} was taken on this node")
    named = str(msgspec.json.decode(taken[-1].outputs_json).get("baseline_digest"))
    data = view.host.holdings.read(allocation, BASELINE)
    if data is None or not same_digest(sha256_hex(data), named):
        state = "is gone" if data is None else "is not the one that its receipt names"
        raise error("baseline_unusable", f"the baseline of allocation {allocation} {state}")
    return decode(data)


def _plant(context: StepContext) -> str:
    """A file that the check has to find, or it does not see what it looks at; "" where there is no such place."""
    found = context.host.files.stat("/tmp")  # noqa: S108
    if found is None or not stat.S_ISDIR(found.st_mode):
        return ""
    canary = CANARY + secrets.token_hex(8)
    from hostler.agent.host.files import Files

    Files(context.host.root).write(canary, b"planted by residue.check\n", mode=0o600)
    return canary


def _tell(context: StepContext, findings: list[Finding]) -> None:
    """Every finding into the step's log, as far as anybody may want to read; all of them stand in a file."""
    for finding in findings[:MOST_LINES]:
        context.log("agent", f"residue: {finding}" + (f": {finding.detail}" if finding.detail else ""))
    if len(findings) > MOST_LINES:
        context.log("agent", f"residue: {len(findings) - MOST_LINES} more, all of them in {FINDINGS} on the node")


def _judge(after: Inventory, findings: list[Finding], *, canary_found: bool) -> None:
    """Raises `residue_found`, `residue_incomplete`. Findings come first: they are certain."""
    if findings:
        raise error("residue_found", summary(findings))
    if after.gaps:
        listed = "; ".join(f"{family} is {said}" for family, said in sorted(after.gaps.items()))
        raise error("residue_incomplete", f"the host was not seen whole: {listed}")
    if not canary_found:
        raise error("residue_incomplete", "a file that was planted for the check was not found by it")
