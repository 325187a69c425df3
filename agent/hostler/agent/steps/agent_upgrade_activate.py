"""`agent.upgrade.activate`: the node's agent becomes a staged version of itself, on trial (LC-13, LC-16, LC-21)."""

from functools import partial

from hostler.agent.host.threads import start
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView
from hostler.agent.steps.upgrade_trial import installed_of, is_open, ordered, probe_of, who_of
from hostler.agent.upgrade.order import activation, check_free
from hostler.agent.upgrade.records import Trial
from hostler.base.version import __commit__, __version__
from hostler.catalog.params.upgrade import Activate


class ActivateKind:
    name = "agent.upgrade.activate"

    async def plan(self, view: StepView) -> Plan:
        """Refused here already for what `apply` would refuse."""
        params: Activate = view.params
        installed = installed_of(view)
        target = f"hostler-agent {params.version}"
        if is_open(view, installed):
            return Plan((Change(action="replace", target=target, detail="on trial"),))
        check_free(installed.places, view.attempt_uid)
        trial = await start(partial(_order, view), "upgrade-order")
        if trial is None:
            return Plan((Change(action="keep", target=target),))
        detail = f"now {trial.from_version}; on trial for {params.trial_seconds} s"
        return Plan((Change(action="replace", target=target, detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        done = await ordered(context, partial(_order, context))
        if done is not None:
            return done
        outputs = {"version": __version__, "commit": __commit__, "slot": installed_of(context).running}
        return Outcome(outputs=outputs | {"from_version": __version__, "checks": {}, "extended": 0}, changed=False)

    async def probe(self, view: StepView) -> Probe:
        """Never ambiguous: the record and the verdict are on disk before and after everything."""
        return probe_of(view)


KIND = ActivateKind()


def _order(view: StepView) -> Trial | None:
    params: Activate = view.params
    return activation(installed_of(view), params.version, who_of(view), params.trial_seconds, repair=params.repair)
