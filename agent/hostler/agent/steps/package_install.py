"""`package.install`: allowlisted OS packages with apt, simulated first, and nothing beyond what was declared (SK-05).

    installed as asked? ─▶ keep
    repair ─▶ refresh ─▶ simulate ─▶ judge ─▶ install ─▶ look again

What dpkg's own database says is the truth; it outlives a crash, and an interrupted dpkg is finished first.
"""

from typing import Any

from hostler.agent.host.packages import Installed, Step, Wish
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.clock import Deadline
from hostler.base.errors import error
from hostler.catalog.params.package import Install

LOOK_S = 120.0  # for a plan or a probe, which have no deadline of their own


class InstallKind:
    name = "package.install"

    async def plan(self, view: StepView) -> Plan:
        """What apt says it would do, over fresh indexes that are kept apart from the machine's own."""
        deadline = Deadline.after(LOOK_S, view.host.clock)
        _check_sources(view)
        found = await _installed(view, deadline)
        if _stands(view.params, found):
            return Plan(tuple(Change(action="keep", target=name) for name in _names(view.params)))
        steps = await _steps(view, deadline)
        changes = [Change(action=step.action, target=step.name, detail=_versions(step)) for step in steps]
        if await view.host.packages.interrupted(deadline):
            changes.insert(0, Change(action="repair", target="dpkg", detail="an earlier run was interrupted"))
        return Plan(tuple(changes))

    async def apply(self, context: StepContext) -> Outcome:
        if context.cancelled.is_set():
            raise error("canceled", "nothing was installed")
        _check_sources(context)
        apt, deadline, params = context.host.packages, context.deadline, context.params
        context.confined({"no_new_privileges": True, "seccomp": True, "writes": None, "network": True})
        before = await _installed(context, deadline)
        repaired = await apt.interrupted(deadline)
        if repaired:
            context.log("agent", "an earlier dpkg was interrupted; it is finished first")
            await apt.repair(deadline)
            before = await _installed(context, deadline)
        if _stands(params, before):
            return _outcome(params, before, (), repaired=repaired)
        steps = await _steps(context, deadline)
        for line in await apt.install(_wish(params), deadline, context.cancelled):
            context.log("stdout", line)
        after = await _installed(context, deadline)
        if not _stands(params, after):
            raise error("package_conflict", "apt ended well, and yet not all packages are installed as asked")
        return _outcome(params, after, steps, repaired=repaired)

    async def probe(self, view: StepView) -> Probe:
        deadline = Deadline.after(LOOK_S, view.host.clock)
        found = await _installed(view, deadline)
        if not _stands(view.params, found) or await view.host.packages.interrupted(deadline):
            return Probe(truth=Truth.NOT_DONE)
        note = "what else came along is not known any more"
        return Probe(truth=Truth.DONE, outcome=_outcome(view.params, found, (), repaired=False), note=note)


KIND = InstallKind()


def _check_sources(view: StepView) -> None:
    """Raises `source_denied`."""
    params: Install = view.params
    for repository in params.repositories:
        if not view.may_fetch(repository.uri):
            raise error("source_denied", f"repository {repository.uri} is outside what may be fetched here")
    restricted = view.policy.allowed_artifact_sources is not None or view.allowed_sources is not None
    if restricted and not params.repositories:
        raise error("source_denied", "sources are restricted, so the node's own package sources cannot be used")


async def _installed(view: StepView, deadline: Deadline) -> dict[str, Installed]:
    return await view.host.packages.installed(_names(view.params), deadline)


async def _steps(view: StepView, deadline: Deadline) -> tuple[Step, ...]:
    """What apt would do now, once it is judged."""
    wish = _wish(view.params)
    await view.host.packages.refresh(wish, deadline)
    steps = await view.host.packages.simulate(wish, deadline)
    _judge(view, steps)
    return steps


def _judge(view: StepView, steps: tuple[Step, ...]) -> None:
    """Raises `package_not_allowed` or `package_conflict` for anything beyond what was declared."""
    comes = [step.name for step in steps if step.action != "remove"]
    goes = [step.name for step in steps if step.action == "remove"]
    foreign = [name for name in comes if name not in view.allowed_packages]
    if foreign:
        message = f"apt would install or upgrade {', '.join(foreign[:8])} as well, which is not allowlisted"
        raise error("package_not_allowed", message)
    undeclared = [name for name in goes if name not in view.params.removes]
    if undeclared:
        raise error(
            "package_conflict", f"apt would remove {', '.join(undeclared[:8])}, which the step does not declare"
        )


def _wish(params: Install) -> Wish:
    pairs = tuple((package.name, package.version) for package in params.packages)
    return Wish(pairs, params.repositories, params.allow_downgrade, params.recommends, bool(params.removes))


def _names(params: Install) -> tuple[str, ...]:
    return tuple(package.name for package in params.packages)


def _stands(params: Install, found: dict[str, Installed]) -> bool:
    nothing = Installed("", False)
    return all(
        found.get(package.name, nothing).whole and package.version in ("", found[package.name].version)
        for package in params.packages
    )


def _versions(step: Step) -> str:
    return " -> ".join(version for version in (step.before, step.after) if version)


def _outcome(params: Install, found: dict[str, Installed], steps: tuple[Step, ...], *, repaired: bool) -> Outcome:
    outputs: dict[str, Any] = {
        "packages": {name: found[name].version for name in sorted(_names(params))},
        "installed": [step.name for step in steps if step.action == "install"],
        "upgraded": [step.name for step in steps if step.action == "upgrade"],
        "removed": [step.name for step in steps if step.action == "remove"],
        "repaired": repaired,
    }
    return Outcome(outputs=outputs, changed=bool(steps) or repaired)
