"""`resolver.config.apply`: another resolver configuration becomes the active one (SK-22, RD-01..04).

The document comes from the signed catalog; the task only says which. Whether it is active is in the journal.
"""

from hostler.agent.resolver.resolver import Active, Resolver, check_order, check_signed
from hostler.agent.steps.contract import Change, FileState, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.resolver import ConfigApply


class ResolverConfigApplyKind:
    name = "resolver.config.apply"

    async def plan(self, view: StepView) -> Plan:
        """Refused here already for what `apply` would refuse."""
        resolver, wanted = _resolver(view), _wanted(view)
        active = _active(resolver)
        check_order(active, wanted)
        check_signed(resolver.catalog, wanted)
        action = "keep" if _is_active(resolver, wanted) else "replace" if active else "create"
        before = f"; now {active.config} of catalog {active.version}, sha256 {active.digest}" if active else ""
        detail = f"of catalog {wanted.version}, sha256 {wanted.digest}{before}"
        return Plan((Change(action=action, target=f"resolver configuration {wanted.config}", detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        resolver, wanted = _resolver(context), _wanted(context)
        if context.cancelled.is_set():
            raise error("canceled", "the step was cancelled before the configuration was applied")
        before = _active(resolver)
        changed = await resolver.apply(wanted)
        context.log("agent", f"resolver configuration {wanted.config} of catalog {wanted.version} is active")
        return _outcome(resolver, wanted, before=before, changed=changed)

    async def probe(self, view: StepView) -> Probe:
        """The journal's record is written in one go: it is either active or it is not."""
        resolver, wanted = _resolver(view), _wanted(view)
        if not _is_active(resolver, wanted):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(resolver, wanted, before=None, changed=True))


KIND = ResolverConfigApplyKind()


def _resolver(view: StepView) -> Resolver:
    if view.resolver is None:
        raise error("no_resolver", "this agent was started without a place for resolver configurations")
    return view.resolver


def _wanted(view: StepView) -> Active:
    params: ConfigApply = view.params
    return Active(config=params.config, version=params.version, digest=params.digest)


def _active(resolver: Resolver) -> Active | None:
    try:
        return resolver.active
    except HostlerError:
        return None  # drift; what is applied now mends it


def _is_active(resolver: Resolver, wanted: Active) -> bool:
    return _active(resolver) == wanted and not resolver.drift


def _outcome(resolver: Resolver, wanted: Active, *, before: Active | None, changed: bool) -> Outcome:
    outputs = {"config": wanted.config, "version": wanted.version, "digest": wanted.digest}
    old = (_file(resolver, before),) if before else ()
    return Outcome(outputs=outputs, changed=changed, files_before=old, files_after=(_file(resolver, wanted),))


def _file(resolver: Resolver, active: Active) -> FileState:
    return FileState(path=str(resolver.path_of(active)), sha256=active.digest, mode="0600")
