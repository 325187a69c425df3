"""`agent.upgrade.rollback`: the node's agent becomes an earlier version of itself again, on trial (LC-13)."""

from functools import partial

from hostler.agent.host.threads import start
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView
from hostler.agent.steps.upgrade_trial import installed_of, is_open, ordered, probe_of, who_of
from hostler.agent.upgrade.order import check_free, rollback
from hostler.agent.upgrade.records import Trial
from hostler.catalog.params.upgrade import Rollback


class RollbackKind:
    name = "agent.upgrade.rollback"

    async def plan(self, view: StepView) -> Plan:
        """Refused here already for what `apply` would refuse."""
        params: Rollback = view.params
        installed = installed_of(view)
        if is_open(view, installed):
            return Plan((Change(action="replace", target="hostler-agent", detail="on trial"),))
        check_free(installed.places, view.attempt_uid)
        trial = await start(partial(_order, view), "upgrade-order")
        detail = f"now {trial.from_version}; on trial for {params.trial_seconds} s"
        return Plan((Change(action="replace", target=f"hostler-agent {trial.version}", detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        done = await ordered(context, partial(_order, context))
        assert done is not None  # there is always something to return to, or a refusal
        return done

    async def probe(self, view: StepView) -> Probe:
        return probe_of(view)


KIND = RollbackKind()


def _order(view: StepView) -> Trial:
    params: Rollback = view.params
    return rollback(installed_of(view), params.to_version, who_of(view), params.trial_seconds, params.reason)
