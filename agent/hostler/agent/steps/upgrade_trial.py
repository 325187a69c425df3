"""What the steps of an upgrade have in common: who may ask, the order on record, and the wait for its verdict.

The step that orders a trial is stopped by it, with its agent. Its task stays open, and whichever version runs next
takes the step up: the record says whether it was ordered, the verdict says how it went.
"""

import asyncio
import contextlib
from collections.abc import Callable

from hostler.agent.host.threads import start
from hostler.agent.steps.contract import Outcome, Probe, StepContext, StepView, Truth
from hostler.agent.upgrade import records
from hostler.agent.upgrade.installed import TRIAL_UNIT, Installed
from hostler.agent.upgrade.order import Who, check_free
from hostler.agent.upgrade.records import KEPT, ORDERED, Trial, Verdict
from hostler.base.errors import HostlerError, error

LOOK_S = 0.25


def installed_of(view: StepView) -> Installed:
    """Raises `not_packaged`, and `local_policy_denied` for a task of an allocation's tenant."""
    if view.installed is None or not view.installed.running:
        raise error("not_packaged", "this agent runs from no package of ours, so it cannot be replaced in place")
    if view.allocation_id and not view.sees_all_tasks:
        raise error("local_policy_denied", "an allocation's tenant does not replace the node's agent")
    return view.installed


def who_of(view: StepView) -> Who:
    boot_id = (view.host.root / "proc/sys/kernel/random/boot_id").read_text().strip()
    return Who(view.attempt_uid, view.task_id, boot_id, view.host.clock.now_ms())


def is_open(view: StepView, installed: Installed) -> bool:
    """Whether this very attempt has ordered a trial that is not over."""
    trial = records.trial(installed.places)
    return trial is not None and trial.key == view.attempt_uid


async def ordered(context: StepContext, order: Callable[[], Trial | None]) -> Outcome | None:
    """Orders the trial unless it is on record, sees that the watcher runs, and waits. None: nothing to do.

    Raises:
        HostlerError: `upgrade_rolled_back`, `trial_open`, `timeout`, and what `order` raises.
    """
    installed = installed_of(context)
    verdict = records.verdict(installed.places, context.attempt_uid)
    if verdict is None and not is_open(context, installed):
        if context.checkpoint:
            raise _ended_here()
        check_free(installed.places, context.attempt_uid)
        await _check_watcher(context)
        trial = await start(order, "upgrade-order")
        if trial is None:
            return None
        if context.cancelled.is_set():
            raise error("canceled", "the step was cancelled before anything was switched")
        check_free(installed.places, context.attempt_uid)
        records.write(installed.places.trial, trial)
        await context.save_checkpoint({"ordered": trial.version})
        context.log("agent", f"version {trial.version} goes on trial for {trial.trial_ms // 1000} s")
    return outcome_of(verdict or await _verdict(context, installed))


async def _check_watcher(context: StepContext) -> None:
    state = await context.host.systemd.unit_state(TRIAL_UNIT)
    if state.load != "loaded":
        raise error("not_packaged", f"this node has no {TRIAL_UNIT} ({state.load}), and no version goes without it")


async def _verdict(context: StepContext, installed: Installed) -> Verdict:
    """The watcher is started, should nobody have done so, and judges. Again until it has begun: one that is at the end
    of the trial before would be taken for it."""
    try:
        await context.host.systemd.begin(TRIAL_UNIT, "start")
    except HostlerError:
        trial = records.trial(installed.places)
        if trial is not None and trial.phase == ORDERED:
            installed.places.trial.unlink(missing_ok=True)  # nobody judges, so nothing is switched
        raise
    while True:
        trial = records.trial(installed.places)  # before the verdict, which is written ahead of the end
        verdict = records.verdict(installed.places, context.attempt_uid)
        if verdict is not None:
            return verdict
        if trial is None or trial.key != context.attempt_uid:
            raise _ended_here()
        if context.deadline.passed():
            raise error("timeout", "the trial is not over yet; it goes on, and the node's report will tell its end")
        await asyncio.sleep(LOOK_S)
        if trial.phase == ORDERED:
            with contextlib.suppress(HostlerError):
                await context.host.systemd.begin(TRIAL_UNIT, "start")


def _ended_here() -> HostlerError:
    how = "as an installation by dpkg does, or a record of it that cannot be read"
    return error("upgrade_rolled_back", f"the trial was ended on the node itself, {how}")


def probe_of(view: StepView) -> Probe:
    installed = installed_of(view)
    verdict = records.verdict(installed.places, view.attempt_uid)
    if verdict is None:
        return Probe(truth=Truth.NOT_DONE, alive=is_open(view, installed))
    try:
        return Probe(truth=Truth.DONE, outcome=outcome_of(verdict))
    except HostlerError as err:
        return Probe(truth=Truth.DONE, error_code=err.code, note=err.message)


def outcome_of(verdict: Verdict) -> Outcome:
    """Raises `upgrade_rolled_back` for a version that was returned from."""
    if verdict.end != KEPT:
        message = f"version {verdict.version} was given up for {verdict.to_version}: {verdict.reason}"
        raise error("upgrade_rolled_back", message)
    outputs = {
        "version": verdict.version,
        "commit": verdict.commit,
        "slot": verdict.slot,
        "from_version": verdict.from_version,
        "checks": verdict.checks,
        "extended": verdict.extended,
    }
    return Outcome(outputs=outputs, changed=True)
