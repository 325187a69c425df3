"""LC-15, API-20: how a rollout is made, and how its waves follow each other."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_commands import AdvanceAgents, SetNodeAgent
from hostler.control.kernel.commands import RevokeNode, TargetSelector
from hostler.control.kernel.rollout_rows import afresh
from support.agents import NEW, OLD
from support.control import ADMIN, submit
from support.rollouts import Rollouts, healthy

replace = msgspec.structs.replace
HOUR_MS = 3_600_000


# -- how one is made ------------------------------------------------------------------------------


def test_API_20_a_dry_run_shows_the_waves_and_makes_nothing() -> None:
    rollouts = Rollouts({"eu": 2, "us": 2})
    before = len(rollouts.bench.events)
    plan = rollouts.create(dry_run=True, boundary="region")
    assert [(wave.boundary, len(wave.nodes)) for wave in plan.waves] == [("canary", 1), ("eu", 1), ("us", 2)]
    assert plan.rollout_id == ""
    assert len(rollouts.bench.events) == before
    assert rollouts.open_runs() == []


def test_a_rollout_without_names_is_for_every_active_node_with_another_version() -> None:
    rollouts = Rollouts(2)
    there, revoked = rollouts.node(NEW), rollouts.node()
    rollouts.run(RevokeNode(actor=ADMIN, node_id=revoked))
    plan = rollouts.create()
    assert [node.node_id for node in plan.nodes] == rollouts.nodes
    assert there not in {row.node_id for row in rollouts.parts()}


def test_nodes_on_the_version_and_revoked_ones_are_skipped_with_the_reason() -> None:
    rollouts = Rollouts(1)
    there, revoked = rollouts.node(NEW), rollouts.node()
    rollouts.run(RevokeNode(actor=ADMIN, node_id=revoked))
    rollouts.create(nodes=(rollouts.nodes[0], there, revoked))
    said = {row.node_id: (row.state, row.reason, row.error_code) for row in rollouts.parts("skipped")}
    assert said == {
        there: ("skipped", "it runs that version already", ""),
        revoked: ("skipped", "its identity is revoked", "revoked"),
    }


def pinned(rollouts: Rollouts, version: str, node: str = "") -> str:
    node = node or rollouts.node()
    rollouts.run(SetNodeAgent(actor=ADMIN, node_id=node, channel="pinned", version=version, correlation_id="c"))
    return node


def test_LC_01_a_pinned_node_gets_another_version_only_where_it_is_named() -> None:
    rollouts = Rollouts(1)
    held, there = pinned(rollouts, OLD), pinned(rollouts, NEW)
    plan = rollouts.create(dry_run=True)
    assert {node.node_id: node.skip for node in plan.nodes} == {
        rollouts.nodes[0]: "",
        there: "",
        held: f"it is pinned to {OLD}, and was not named",
    }
    assert [node.skip for node in rollouts.create(nodes=[held], dry_run=True).nodes] == [""]


def test_LC_01_a_rollout_for_which_pins_leave_nobody_says_so() -> None:
    rollouts = Rollouts(0)
    held = pinned(rollouts, OLD)
    with pytest.raises(HostlerError, match=rf"none can get it; \S+: it is pinned to {OLD}") as refusal:
        rollouts.create()
    assert refusal.value.code == "empty_target"
    rollouts.create(nodes=[held])


def test_LC_01_a_node_that_is_pinned_while_it_waits_for_its_turn_keeps_its_version() -> None:
    rollouts = Rollouts(4)
    rollouts.create(approval="after_canary")
    rollouts.play()
    waiting = [row.node_id for row in rollouts.parts("pending")]
    pinned(rollouts, OLD, waiting[0])
    pinned(rollouts, NEW, waiting[1])
    assert rollouts.part(waiting[0]).reason == f"it was pinned to {OLD} before its turn"
    rollouts.move("approve")
    rollouts.play()
    assert rollouts.states() == {"succeeded": 3, "skipped": 1}


def test_LC_01_a_pin_that_is_set_once_more_keeps_no_node_out_that_was_named() -> None:
    rollouts = Rollouts(0)
    rollouts.create(nodes=[pinned(rollouts, OLD), pinned(rollouts, OLD)], approval="after_canary")
    rollouts.play()
    pinned(rollouts, OLD, rollouts.parts("pending")[0].node_id)
    rollouts.move("approve")
    rollouts.play()
    assert rollouts.states() == {"succeeded": 2}


def test_labels_choose_among_those_named() -> None:
    rollouts = Rollouts({"eu": 2, "us": 2})
    plan = rollouts.create(nodes=rollouts.nodes[:3], labels={"region": "eu"}, dry_run=True)
    assert [node.node_id for node in plan.nodes] == rollouts.nodes[:2]
    assert len(rollouts.create(labels={"region": "us"}, dry_run=True).nodes) == 2


@pytest.mark.parametrize(
    ("asked", "code", "pointer"),
    [
        ({"version": "9.9.9"}, "release_missing", "/version"),
        ({"nodes": ("nobody",)}, "unknown_target", "/nodes"),
        ({"labels": {"region": "mars"}}, "empty_target", "/nodes"),
        ({"version": OLD}, "empty_target", "/nodes"),
        ({"canary": 0}, "invalid_request", "/settings/canary"),
    ],
)
def test_API_20_what_cannot_be_rolled_out_is_refused_with_a_pointer(asked, code, pointer) -> None:
    with pytest.raises(HostlerError) as refusal:
        Rollouts(2).create(**asked)
    assert (refusal.value.code, refusal.value.pointer) == (code, pointer)


def test_a_node_is_in_one_open_rollout_at_a_time() -> None:
    rollouts = Rollouts(2)
    rollouts.create(nodes=rollouts.nodes[:1])
    with pytest.raises(HostlerError) as refusal:
        rollouts.create()
    assert refusal.value.code == "rollout_open"
    rollouts.play()
    rollouts.create()
    assert rollouts.play() == [rollouts.nodes[1]]


def test_a_node_without_a_package_for_its_debian_release_is_skipped() -> None:
    rollouts = Rollouts(2)
    rollouts.report(rollouts.nodes[0], suite="trixie")
    rollouts.create()
    assert (rollouts.part(rollouts.nodes[0]).state, rollouts.part(rollouts.nodes[0]).error_code) == (
        "skipped",
        "release_missing",
    )


# -- waves ----------------------------------------------------------------------------------------


def test_LC_15_a_wave_begins_only_when_the_one_before_has_ended() -> None:
    rollouts = Rollouts({"eu": 3, "us": 2})
    rollouts.create(boundary="region", canary=1)
    seen = []
    while rollouts.open_runs():
        waves = {rollouts.part(run.node_id).wave for run in rollouts.open_runs()}
        assert len(waves) == 1
        seen.append(waves.pop())
        rollouts.succeed()
    assert seen == [0, 1, 1, 2, 2]
    assert (rollouts.rollout.state, rollouts.states()) == ("succeeded", {"succeeded": 5})
    assert [said["boundary"] for said in rollouts.told("rollout.wave_started")] == ["canary", "eu", "us"]
    assert len(rollouts.told("rollout.wave_finished")) == 3
    (over,) = rollouts.told("rollout.finished")
    assert (over["state"], over["succeeded"]) == ("succeeded", 5)


def test_LC_15_no_more_run_at_one_time_than_was_said() -> None:
    rollouts = Rollouts(7)
    rollouts.create(max_parallel=2, canary=1)
    assert len(rollouts.open_runs()) == 1
    rollouts.succeed()
    while rollouts.open_runs():
        assert len(rollouts.open_runs()) == min(2, len(rollouts.parts("pending", "running")))
        rollouts.succeed()
    assert rollouts.states() == {"succeeded": 7}


def test_idle_nodes_of_a_wave_go_first_so_that_busy_ones_hold_nobody_up() -> None:
    rollouts = Rollouts(4)
    rollouts.create(max_parallel=1, canary=1)
    rollouts.run(submit(target_selector=TargetSelector(nodes=(rollouts.nodes[1],))))
    assert [rollouts.succeed() for _ in range(4)] == [rollouts.nodes[number] for number in (0, 2, 3, 1)]


def test_LC_15_a_wave_is_watched_before_the_next_begins() -> None:
    rollouts = Rollouts(2)
    rollouts.create(soak_seconds=60)
    rollouts.succeed()
    assert (rollouts.states(), rollouts.open_runs()) == ({"soaking": 1, "pending": 1}, [])
    rollouts.pass_time(59_000)
    assert rollouts.open_runs() == []
    rollouts.pass_time(1_000)
    assert rollouts.states() == {"succeeded": 1, "running": 1}


@pytest.mark.parametrize(("approval", "asked"), [("none", 0), ("after_canary", 1), ("each_wave", 2)])
def test_LC_15_a_person_is_asked_before_the_waves_that_were_said(approval: str, asked: int) -> None:
    rollouts = Rollouts({"eu": 2, "us": 1})
    rollouts.create(boundary="region", approval=approval)
    times = 0
    rollouts.play()
    while rollouts.rollout.state == "awaiting_approval":
        rollouts.pass_time(HOUR_MS * 2)
        assert rollouts.open_runs() == []
        assert rollouts.move("approve") == "running"
        times += 1
        rollouts.play()
    assert (times, rollouts.rollout.state) == (asked, "succeeded")
    assert rollouts.refused("approve") == "rollout_over"


def test_every_row_ends_with_a_state_a_reason_and_a_time() -> None:
    rollouts = Rollouts(6)
    rollouts.create(success_percent=50, max_failures=3)
    rollouts.succeed()
    rollouts.give_up()
    rollouts.play()
    healthy(rollouts)
    assert all(row.finished_at_ms for row in rollouts.parts())


def test_afresh_forgets_everything_but_the_tries() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.give_up()
    (row,) = rollouts.parts()
    fresh = replace(row, state="pending", tries=0)
    names = [name for name in fresh.__struct_fields__ if getattr(afresh(row), name) != getattr(row, name)]
    assert set(names) >= {"state", "run_id", "error_code", "reason", "finished_at_ms", "started_at_ms"}
    assert (afresh(row).tries, afresh(row).from_version) == (1, OLD)


def test_a_finished_rollout_is_not_looked_at_again() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.play()
    before = len(rollouts.bench.events)
    rollouts.pass_time(HOUR_MS)
    rollouts.hello(rollouts.nodes[0], OLD, instance_id="much later")
    assert not [event for event in rollouts.bench.events[before:] if event.type.startswith("rollout")]


def test_waiting_costs_nothing_but_the_look() -> None:
    """A tick in which nothing moves writes no row and no event."""
    rollouts = Rollouts(3)
    rollouts.create(soak_seconds=600)
    rollouts.succeed()
    rollouts.pass_time(1_000)
    decision = rollouts.bench.decide(AdvanceAgents())
    assert (decision.inserts, decision.updates, decision.events) == ({}, {}, [])
