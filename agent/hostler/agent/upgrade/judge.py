"""Whether a version on trial stays. Pure: the record, what the version says, what the watcher saw, and the moment.

    decide ─▶ Wait | Ask | Extend | Keep | Return

A version is returned from for what it did not do while it could. Time in which the control plane was at fault does not
count against it (U2): nothing is returned from, and nothing kept, while nobody can say which. A trial that goes on
for long by that is told as `unproven`. A machine that started anew gives it a fresh deadline, a few times.
"""

from dataclasses import dataclass

from hostler.agent.upgrade.records import RUNNING, Said, Trial

MOST_FAILED_STARTS = 3
MOST_BOOTS = 3
ASK_EVERY_MS = 10_000
RECOVER_MS = 90_000  # an agent that was turned away dials again within 30 s, renews, and has to hold its session
FRESH_MS = 20_000  # an answer of the control plane that is older says nothing of now

UNPROVEN_MS = 3_600_000  # so long a trial may go on before somebody has to hear of it

STARTED, RENEWED, CONNECTED, TASK_DONE = "started", "renewed", "connected", "task_done"
_MISSED = {
    STARTED: "start",
    RENEWED: "renew its certificate",
    CONNECTED: "hold its session",
    TASK_DONE: "finish a task",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the watcher sees for itself. Times are milliseconds of the monotonic clock.

    Attributes:
        boot_id: of this boot.
        starts: of the slot on trial, in this boot, as the launcher counted them.
        passed_over: the launcher has started another slot in its place.
        up: whether the service is active, or starting.
        renewed: a valid certificate of the node's own key lies there that is not the one from before.
        server_good_ms: when the control plane last answered; 0 for never.
        server_bad_ms: when it last turned this node away, or was not there.
    """

    boot_id: str
    starts: int = 0
    passed_over: bool = False
    up: bool = True
    renewed: bool = False
    server_good_ms: int = 0
    server_bad_ms: int = 0


@dataclass(frozen=True)
class Wait:
    """Nothing to do yet."""


@dataclass(frozen=True)
class Ask:
    """Whether the control plane takes calls has to be known first."""


@dataclass(frozen=True)
class Extend:
    """The deadline is another. `boots` and `server_bad_ms` go into the record with it."""

    deadline_ms: int
    boots: int
    server_bad_ms: int


@dataclass(frozen=True)
class Keep:
    """It has stood its trial."""


@dataclass(frozen=True)
class Return:
    """Back to the version before."""

    reason: str


Decision = Wait | Ask | Extend | Keep | Return


def checks(trial: Trial, said: Said | None, facts: Facts) -> dict[str, int]:
    """The moment at which each check held; 0 for one that does not. Only words about this trial count."""
    if said is None or (said.key, said.slot, said.version) != (trial.key, trial.slot, trial.version):
        return dict.fromkeys(_MISSED, 0)
    return {
        STARTED: said.started_ms,
        RENEWED: said.renewed_ms if facts.renewed else 0,
        CONNECTED: said.connected_ms,
        TASK_DONE: said.task_done_ms,
    }


def decide(trial: Trial, said: Said | None, facts: Facts, now_ms: int) -> Decision:
    """For a trial in the phase `running`."""
    if facts.boot_id != trial.boot_id:
        if trial.boots >= MOST_BOOTS:
            return Return(f"the machine started {trial.boots} times during the trial")
        return Extend(now_ms + trial.trial_ms, trial.boots + 1, 0)
    if facts.passed_over or failed_starts(facts) >= MOST_FAILED_STARTS:
        return Return(f"{facts.starts} starts of it failed" if facts.starts else "it cannot be started")
    held = checks(trial, said, facts)
    missed = [name for name, at_ms in held.items() if not at_ms]
    if not missed:
        return Keep()
    bad_ms = max(trial.server_bad_ms, facts.server_bad_ms)
    if missed[0] != STARTED and bad_ms > trial.server_bad_ms:
        return Extend(max(trial.deadline_ms, bad_ms + max(trial.trial_ms, RECOVER_MS)), trial.boots, bad_ms)
    if now_ms < trial.deadline_ms:
        return Ask() if missed[0] != STARTED and _is_due(facts, now_ms) else Wait()
    if missed[0] != STARTED and facts.server_good_ms + FRESH_MS < now_ms:
        return Ask()
    what = _MISSED[STARTED] if missed[0] == STARTED else ", ".join(_MISSED[name] for name in missed)
    return Return(f"within {trial.trial_ms // 1000} s it did not {what}")


def unproven_ms(trial: Trial, wall_ms: int) -> int:
    """For how long a version runs that nobody could prove; 0 while that is no matter of anybody's."""
    since = wall_ms - trial.ordered_ms
    return since if trial.phase == RUNNING and since > UNPROVEN_MS else 0


def failed_starts(facts: Facts) -> int:
    """The one that is on its way, or has come through, has not failed."""
    return max(0, facts.starts - facts.up)


def _is_due(facts: Facts, now_ms: int) -> bool:
    return max(facts.server_good_ms, facts.server_bad_ms) + ASK_EVERY_MS <= now_ms


def has_returned(trial: Trial, said: Said | None, facts: Facts, now_ms: int) -> bool | None:
    """For the phase `returning`: True when the version before runs again, False when it will not, None for not yet."""
    if said is not None and (said.key, said.slot) == (trial.key, trial.from_slot) and said.started_ms and facts.up:
        return True
    if facts.passed_over or failed_starts(facts) >= MOST_FAILED_STARTS or now_ms >= trial.deadline_ms:
        return False
    return None
