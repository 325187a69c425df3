"""Rollouts: a version brought to many nodes in waves, for administrators (API-20, LC-15, LC-16)."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.base.ids import new_id
from hostler.control.api import pages
from hostler.control.api.call import Call
from hostler.control.api.rollout_bodies import (
    Approval,
    MoveReason,
    NewRollout,
    Resume,
    RolloutMade,
    RolloutState,
    SkippedNode,
    Wave,
)
from hostler.control.kernel.agent_commands import CreateRollout, MoveRollout
from hostler.control.kernel.rollout_plan import Plan
from hostler.control.kernel.rollout_states import NODE_STATES, ROLLOUT_STATES
from hostler.control.store.rollout_queries import RolloutView, Wanted

PREFIX = "rol"


async def create(call: Call) -> tuple[int, RolloutMade]:
    """201 with the waves; 200 for a dry run, which makes nothing."""
    body = await call.body(NewRollout)
    command = CreateRollout(
        actor=call.principal.actor(),
        rollout_id=new_id(PREFIX, call.engine.clock.now_ms()),
        target_version=body.version,
        nodes=body.nodes,
        labels=body.labels,
        settings=body.settings,
        dry_run=body.dry_run,
        correlation_id=call.correlation_id,
    )
    plan: Plan = await call.execute(command)
    answer = RolloutMade(
        rollout_id=plan.rollout_id,
        version=plan.target_version,
        dry_run=body.dry_run,
        settings=msgspec.to_builtins(plan.settings),
        waves=tuple(Wave(index=w.index, boundary=w.boundary, nodes=w.nodes) for w in plan.waves),
        skipped=tuple(
            SkippedNode(node_id=n.node_id, name=n.name, reason=n.skip, error_code=n.error_code) for n in plan.skipped
        ),
    )
    return (200 if body.dry_run else 201), answer


async def listing(call: Call) -> Any:
    size, state = pages.size_of(call.query("page_size")), call.query("state")
    if state and state not in ROLLOUT_STATES:
        raise error("invalid_request", f"a rollout is never {state[:64]!r}", pointer="/state")
    return await call.engine.reader.rollouts(call.query("cursor"), size, state)


async def get(call: Call) -> RolloutView:
    """With its waves, and a page of its nodes."""
    rollout_id, wave, state = call.path("rollout_id"), call.query("wave"), call.query("node_state")
    if wave and not (wave.isascii() and wave.isdigit() and len(wave) <= 6):
        raise error("invalid_request", "wave is the index of one", pointer="/wave")
    if state and state not in NODE_STATES:
        raise error("invalid_request", f"a node of a rollout is never {state[:64]!r}", pointer="/node_state")
    size = pages.size_of(call.query("page_size"))
    wanted = Wanted(call.query("cursor"), size, int(wave) if wave else -1, state)
    found = await call.engine.reader.rollout(rollout_id, wanted)
    if found is None:
        raise error("not_found", f"there is no rollout {rollout_id[:64]!r}")
    return found


async def approve(call: Call) -> RolloutState:
    """The wave that is named begins, if it is the one that waits."""
    body = await call.body(Approval)
    return await _move(call, "approve", body.reason, wave=body.wave)


async def pause(call: Call) -> RolloutState:
    """Nothing new begins; nodes that are changing come to their end."""
    return await _move(call, "pause", (await call.body(MoveReason)).reason)


async def resume(call: Call) -> RolloutState:
    """It goes on; nodes that were brought back get the version again."""
    body = await call.body(Resume)
    return await _move(call, "resume", body.reason, retry_failed=body.retry_failed)


async def abort(call: Call) -> RolloutState:
    """Nodes that have not begun are skipped; those that are changing come to their end."""
    return await _move(call, "abort", (await call.body(MoveReason)).reason)


async def rollback(call: Call) -> RolloutState:
    """Every node that took the version goes back to the one before."""
    return await _move(call, "rollback", (await call.body(MoveReason)).reason)


async def _move(call: Call, action: str, reason: str, *, wave: int = -1, retry_failed: bool = False) -> RolloutState:
    rollout_id = call.path("rollout_id")
    state = await call.execute(
        MoveRollout(
            actor=call.principal.actor(),
            rollout_id=rollout_id,
            action=action,
            wave=wave,
            reason=reason,
            retry_failed=retry_failed,
            correlation_id=call.correlation_id,
        )
    )
    return RolloutState(rollout_id, state)
