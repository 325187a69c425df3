"""LC-15: who is the canary, and which waves follow. The plan is a pure function of nodes and settings."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_commands import RolloutSettings
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.rollout_plan import (
    RANGES,
    Candidate,
    approved_by,
    boundary_of,
    check,
    first_approved,
    out_of_reach,
    wave_list,
    waves_of,
)
from support.memory_view import Bench


def node(name: str, boundary: str = "", **more: Any) -> Candidate:
    return Candidate(node_id=f"nod_{name}", name=name, boundary=boundary, **more)


def waves(*nodes: Candidate, **settings: Any) -> list[tuple[str, ...]]:
    return [wave.nodes for wave in wave_list(waves_of(nodes, RolloutSettings(**settings)))]


def test_LC_15_the_canary_goes_first_and_then_each_value_of_the_boundary() -> None:
    planned = wave_list(
        waves_of(
            [node("a", "us"), node("b", "eu"), node("c", "us"), node("d", "eu"), node("e", "us")],
            RolloutSettings(canary=1, boundary="region"),
        )
    )
    assert [(wave.boundary, wave.nodes) for wave in planned] == [
        ("canary", ("a",)),  # of the largest region
        ("eu", ("b", "d")),
        ("us", ("c", "e")),
    ]


def test_LC_15_a_canary_is_connected_healthy_and_idle_where_any_node_is() -> None:
    nodes = [
        node("a", connected=False),
        node("b", healthy=False),
        node("c", idle=False),
        node("d"),
    ]
    assert waves(*nodes, canary=1)[0] == ("d",)
    assert waves(*nodes, canary=4) == [("d", "c", "b", "a")]


def test_LC_15_canaries_stand_for_every_boundary_and_release_before_a_second_of_one() -> None:
    nodes = [node(f"{region}{n}", region) for region, count in (("eu", 5), ("us", 3), ("ap", 1)) for n in range(count)]
    assert waves(*nodes, canary=4, boundary="region")[0] == ("eu0", "us0", "ap0", "eu1")
    mixed = [node("a1", suite="bookworm"), node("a2", suite="bookworm"), node("a3", suite="trixie")]
    assert waves(*mixed, canary=2)[0] == ("a1", "a3")


def test_LC_15_waves_go_in_the_order_asked_for_then_by_name_and_without_a_value_last() -> None:
    nodes = [node("x", ""), node("u", "us"), node("e", "eu"), node("s", "sa"), node("c", "")]
    assert waves(*nodes, canary=1, boundary="region", order=("us",)) == [("c",), ("u",), ("e",), ("s",), ("x",)]


def test_LC_15_without_a_boundary_there_is_one_wave_after_the_canary() -> None:
    assert waves(node("a"), node("b"), node("c")) == [("a",), ("b", "c")]


def test_a_node_that_is_skipped_has_a_reason_and_no_turn() -> None:
    nodes = [node("a", skip="it runs that version already"), node("b")]
    planned = waves_of(nodes, RolloutSettings())
    assert [(each.name, each.skip) for each in planned] == [("b", ""), ("a", "it runs that version already")]
    assert wave_list(planned)[0].nodes == ("b",)


def test_boundaries_are_a_label_the_pool_or_the_tenant() -> None:
    bench = Bench()
    labelled = bench.node(labels=msgspec.json.encode({"region": "eu", "pool": "h100"}).decode())
    lent = bench.node(pool=1)
    free = bench.node(org=POOL, project=POOL, pool=1)
    assert [boundary_of(each, "region") for each in (labelled, lent)] == ["eu", ""]
    assert [boundary_of(each, "pool") for each in (labelled, lent, bench.node())] == ["h100", "pool", "owned"]
    assert [boundary_of(each, "tenant") for each in (lent, free)] == ["acme", "pool"]


@pytest.mark.parametrize("name", RANGES)
def test_API_20_a_setting_out_of_its_range_is_refused_with_a_pointer(name: str) -> None:
    least, most = RANGES[name]
    for good in (least, most):
        check(RolloutSettings(**{name: good}))
    for bad in (least - 1, most + 1):
        with pytest.raises(HostlerError) as refused:
            check(RolloutSettings(**{name: bad}))
        assert (refused.value.code, refused.value.pointer) == ("invalid_request", f"/settings/{name}")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("approval", "always"),
        ("safety_policy", "hope"),
        ("boundary", "r" * 64),
        ("order", ("eu",)),
    ],
)
def test_API_20_a_word_that_is_none_is_refused_with_a_pointer(setting: str, value: Any) -> None:
    with pytest.raises(HostlerError) as refused:
        check(RolloutSettings(**{setting: value}))
    assert refused.value.pointer == f"/settings/{setting}"


def test_an_order_names_each_value_once() -> None:
    with pytest.raises(HostlerError, match="twice"):
        check(RolloutSettings(boundary="region", order=("eu", "eu")))


def test_LC_15_approval_gates_say_how_far_it_goes_by_itself() -> None:
    gates = {approval: first_approved(RolloutSettings(approval=approval), 5) for approval in ("none", "after_canary")}
    assert gates == {"none": 4, "after_canary": 0}
    assert approved_by(RolloutSettings(approval="after_canary"), 1, 5) == 4
    assert approved_by(RolloutSettings(approval="each_wave"), 1, 5) == 1


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(1, 100))
def test_out_of_reach_says_what_no_end_of_the_rest_can_mend(ok: int, failed: int, left: int, percent: int) -> None:
    total = ok + failed + left
    best = any((ok + more) * 100 >= percent * total for more in range(left + 1))
    assert out_of_reach(ok, failed, left, percent) is not best


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        node_id=st.uuids().map(str),
        name=st.just("n"),
        boundary=st.sampled_from(["", "eu", "us", "ap"]),
        suite=st.sampled_from(["", "bookworm", "trixie"]),
        connected=st.booleans(),
        healthy=st.booleans(),
        idle=st.booleans(),
        skip=st.sampled_from(["", "", "it runs that version already"]),
    ),
    max_size=40,
    unique_by=lambda each: each.node_id,
)


@given(CANDIDATES, st.integers(1, 10), st.randoms())
def test_LC_15_no_node_is_planned_twice_nor_forgotten_and_waves_are_whole(
    nodes: list[Candidate], canary: int, random: Any
) -> None:
    settings = RolloutSettings(canary=canary, boundary="region")
    planned = waves_of(nodes, settings)
    assert Counter(each.node_id for each in planned) == Counter(each.node_id for each in nodes)
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert waves_of(shuffled, settings) == planned  # deterministic, whatever the order they come in
    going = [each for each in planned if not each.skip]
    assert sum(each.wave == 0 for each in going) == min(canary, len(going))
    indices = sorted({each.wave for each in going})
    assert indices == list(range(len(indices)))
    for index in indices[1:]:
        assert len({each.boundary for each in going if each.wave == index}) == 1
    of = {each.node_id: each for each in nodes}
    ranks = [(not of[e.node_id].connected, not of[e.node_id].healthy, not of[e.node_id].idle) for e in going]
    first = [rank for rank, each in zip(ranks, going, strict=True) if each.wave == 0]
    rest = [rank for rank, each in zip(ranks, going, strict=True) if each.wave]
    assert not first or not rest or max(first) <= min(rest) or sorted(first) == sorted(ranks)[: len(first)]
