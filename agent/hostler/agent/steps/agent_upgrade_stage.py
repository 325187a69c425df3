"""`agent.upgrade.stage`: a signed release of the agent beside the one that runs (LC-12, LC-13, PG-06)."""

from functools import partial
from pathlib import Path

from hostler.agent.fetch.connection import target_of
from hostler.agent.host.execute import Command
from hostler.agent.steps.artifact_access import allowed, owner_of, refuse_source
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.upgrade_trial import installed_of
from hostler.agent.upgrade import slots
from hostler.agent.upgrade.slots import Found
from hostler.base.errors import error
from hostler.catalog.params.upgrade import Stage
from hostler.wire.report import Artifact


class StageKind:
    name = "agent.upgrade.stage"

    async def plan(self, view: StepView) -> Plan:
        """Asks nobody: what the update keys have signed is for apply to find out."""
        params: Stage = view.params
        installed = installed_of(view)
        for url in (params.url, params.metadata_url):
            refuse_source(view, url)
        there = next((one for one in slots.every(installed.places) if one.version == params.version), None)
        action = "fetch" if there is None else "check"
        detail = f"sha256 {params.sha256}, from {target_of(params.url).shown}"
        size = params.size_bytes if there is None else 0
        return Plan((Change(action=action, target=f"hostler-agent {params.version}", detail=detail, bytes=size),))

    async def apply(self, context: StepContext) -> Outcome:
        from hostler.agent.upgrade.stage import Stager

        params: Stage = context.params
        installed = installed_of(context)
        stager = Stager(installed, params, owner_of(context), partial(allowed, context), partial(_compile, context))
        staged = await stager.run()
        return _outcome(params, staged.slot, changed=staged.changed)

    async def probe(self, view: StepView) -> Probe:
        """Looked at anew: what lies there already is found by its digest, and fetched only where it does not."""
        return Probe(truth=Truth.NOT_DONE)


KIND = StageKind()


async def _compile(context: StepContext, tree: Path, final: Path) -> None:
    """By the version's own interpreter, so that nothing has to be compiled while it is on trial."""
    argv = ("-I", "-m", "compileall", "-q", "-s", str(tree), "-p", str(final), str(tree / "lib"))
    command = Command(argv=(str(tree / "bin/python3"), *argv), run_as="root" if context.host.is_root else "")
    done = await context.host.execute.run(command, deadline=context.deadline, cancelled=context.cancelled)
    if done.status or done.signal:
        raise error("release_untrusted", f"the version's own Python does not compile it: exit status {done.status}")


def _outcome(params: Stage, slot: Found, *, changed: bool) -> Outcome:
    taken = Artifact(
        name=f"hostler-agent {slot.version}",
        kind="input",
        sha256=params.sha256,
        size_bytes=params.size_bytes,
        media_type="application/vnd.debian.binary-package",
        uri=params.url.partition("?")[0],
    )
    outputs = {"version": slot.version, "commit": slot.commit, "slot": slot.name}
    return Outcome(outputs=outputs, changed=changed, artifacts=(taken,) if changed else ())
