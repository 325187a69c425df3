"""Who is first in line for too long has a place kept, so that small jobs do not overtake it for ever (EF-10)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.control.kernel.events import json_text
from hostler.control.kernel.job_nodes import NodeState, need_of
from hostler.control.kernel.scheduling import Placed, Waiting, Wanting, schedule
from support.jobs import GIB, spec, state


def job(job_id: str, cpu: int, tasks: int = 1, *, aged: bool = False, **more) -> Wanting:
    need = need_of(json_text(spec(cpu=cpu, memory=0)))
    return Wanting(
        job_id=job_id,
        name=f"/ann/{job_id}",
        owner=more.pop("owner", job_id),
        priority=more.pop("priority", 200),
        created_ms=more.pop("created_ms", 0),
        need=need,
        tasks=tuple(Waiting(f"{job_id}{n}") for n in range(tasks)),
        aged=aged,
        **more,
    )


def held(name: str, cpu: int) -> NodeState:
    return state(name, reserved=(cpu, 0, 0, 0, 0))


def test_what_is_free_is_kept_for_who_was_overtaken_for_too_long_and_both_are_told() -> None:
    nodes = [held("n1", 3000), held("n2", 2000)]
    small, big = job("s", 1000, 4, created_ms=9), job("b", 4000)
    assert len(schedule([small, big], nodes).placements) == 3
    made = schedule([small, big._replace(aged=True)], nodes)
    assert made.placements == [("s0", "n1")]
    assert made.reasons["b0"] == ("reserved", "it is the first in line: what gets free on n2 is kept for it")
    assert made.reasons["s1"] == ("reserved", "what is free on n2 is reserved for /ann/b, which waits longer")


def test_a_higher_band_is_not_kept_waiting_and_a_lower_one_is() -> None:
    nodes = [held("n1", 2000)]
    big = job("b", 4000, aged=True)
    assert schedule([job("h", 1000, priority=300), big], nodes).placements == [("h0", "n1")]
    assert schedule([job("l", 1000, priority=100), big], nodes).placements == []


def test_nothing_is_kept_for_what_no_node_could_ever_take() -> None:
    nodes = [held("n1", 2000)]
    made = schedule([job("b", 9000, aged=True), job("s", 1000)], nodes)
    assert made.placements == [("s0", "n1")]
    assert made.reasons["b0"].code == "no_capacity"


def test_the_first_in_line_takes_less_important_ones_before_it_waits_for_a_place() -> None:
    nodes = [held("n1", 4000)]
    low = Placed("low", "n1", 100, (4000, GIB, 0, 0, 0), 0, "")
    made = schedule([job("b", 4000, aged=True)], nodes, [low])
    assert (made.preempt, made.reasons["b0"].code) == (["low"], "preempting")


def test_JB_07_places_are_kept_for_a_whole_gang() -> None:
    nodes = [held("n1", 1000), held("n2", 3000), held("n3", 4000)]
    gang = job("g", 3000, 2, aged=True, gang=True)
    made = schedule([gang, job("s", 1000, 9)], nodes)
    assert made.placements == []
    assert made.reasons["g0"].detail == "it is the first in line: what gets free on n1, n2 is kept for it"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(2, 4),
    st.lists(st.integers(0, 10_000), min_size=40, max_size=40),
    st.booleans(),
)
def test_EF_10_an_endless_stream_of_small_jobs_does_not_keep_the_first_in_line_waiting(
    begun: list[int], size: int, ends: list[int], gang: bool
) -> None:
    """One small task ends at a time, wherever chance says, and small ones always wait: the big job gets its place."""
    count = 2 if gang and len(begun) > 1 else 1
    running = [(f"r{index}-{n}", f"n{index}") for index, full in enumerate(begun) for n in range(full)]
    for turn, chance in enumerate(ends):
        nodes = [held(f"n{i}", 1000 * sum(where == f"n{i}" for _, where in running)) for i in range(len(begun))]
        big = job("big", 1000 * size, count, aged=True, gang=count > 1)
        made = schedule([big, job(f"s{turn}-", 1000, 20, created_ms=1)], nodes)
        if any(task.startswith("big") for task, _ in made.placements):
            return
        running += made.placements
        if running:
            running.pop(chance % len(running))
    raise AssertionError("it never got a place")
