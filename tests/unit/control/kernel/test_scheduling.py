"""The scheduler alone: plain data in, plain data out (JB-05..07, EF-10)."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.catalog.job import Constraint
from hostler.control.kernel.events import json_text
from hostler.control.kernel.job_nodes import NOTHING, Amounts, NodeState, fits, minus, need_of, plus, unmet
from hostler.control.kernel.job_reasons import REASONS
from hostler.control.kernel.scheduling import Placed, Schedule, Waiting, Wanting, schedule
from support.jobs import GIB, spec, state


def need(**said):
    return need_of(json_text(spec(**said)))


def job(job_id: str = "a", tasks: int = 1, *, priority: int = 200, owner: str = "ann", of=None, **more) -> Wanting:
    return Wanting(
        job_id=job_id,
        owner=owner,
        priority=priority,
        created_ms=more.pop("created_ms", 0),
        need=of or need(),
        tasks=tuple(Waiting(f"{job_id}{n}") for n in range(tasks)),
        **more,
    )


def on(task_id: str, node_id: str, priority: int, cpu: int = 1000, gang: str = "", started: int = 0) -> Placed:
    return Placed(task_id, node_id, priority, (cpu, GIB, 0, 0, 0), started, gang)


# -- where to ---------------------------------------------------------------------------------------


def test_JB_02_tasks_are_packed_onto_what_is_fullest_unless_they_are_to_spread() -> None:
    nodes = [state("n1"), state("n2", reserved=(2000, 0, 0, 0, 0)), state("n3")]
    assert schedule([job(tasks=3)], nodes).placements == [("a0", "n2"), ("a1", "n2"), ("a2", "n1")]
    assert [node for _, node in schedule([job(tasks=4, spread=True)], nodes).placements] == ["n1", "n3", "n2", "n1"]


def test_a_node_with_devices_is_left_to_those_who_ask_for_them() -> None:
    nodes = [state("n1", gpu_count="8", reserved=(3000, 0, 0, 0, 0)), state("n2")]
    assert schedule([job()], nodes).placements == [("a0", "n2")]
    gpus = need(resources={"device": {"kind": "gpu", "count": 4}})
    assert schedule([job(of=gpus)], nodes).placements == [("a0", "n1")]


def test_JB_06_constraints_match_labels_and_capabilities_and_preferences_only_sort() -> None:
    nodes = [state("n1", labels={"zone": "a"}), state("n2", labels={"zone": "b"}, gpu_vendor="nvidia")]
    for constraint, where in (
        (Constraint(key="zone", values=("b",)), "n2"),
        (Constraint(key="zone", op="ne", values=("b",)), "n1"),
        (Constraint(key="gpu.vendor", op="exists"), "n2"),
        (Constraint(key="zone", op="not_in", values=("a", "c")), "n2"),
        (Constraint(key="zone", op="in", values=("a", "c")), "n1"),
        (Constraint(key="zone", values=("b",), prefer=True), "n2"),
        (Constraint(key="zone", values=("z",), prefer=True), "n1"),
    ):
        of = need_of(json_text(spec(constraints=[json_like(constraint)])))
        assert schedule([job(of=of)], nodes).placements == [("a0", where)], constraint


def json_like(constraint: Constraint) -> dict[str, object]:
    names = ("key", "op", "values", "prefer")
    return {name: getattr(constraint, name) for name in names}


def test_what_a_definition_requires_of_a_node_is_a_constraint_too() -> None:
    from hostler.catalog.capabilities import unmet as lacking
    from support.builders import definition

    document = definition(capabilities={"host.init": "systemd"}).canonical().decode()
    of = need_of(json_text(spec()), document)
    assert lacking({"host.init": "systemd"}, {"host.init": "other"})
    assert schedule([job(of=of)], [state("n1", host_init="other"), state("n2", host_init="systemd")]).placements == [
        ("a0", "n2")
    ]


# -- gangs ------------------------------------------------------------------------------------------


def test_JB_07_of_two_gangs_of_four_on_six_slots_one_runs_and_one_waits_whole() -> None:
    nodes = [state(f"n{n}", cpu=2000) for n in range(3)]
    made = schedule([job("a", 4, gang=True), job("b", 4, gang=True)], nodes)
    assert [task for task, _ in made.placements] == ["a0", "a1", "a2", "a3"]
    assert {made.reasons[f"b{n}"].code for n in range(4)} == {"gang_waits"}
    assert made.reasons["b0"].detail.startswith("2 of 4 would fit")


def test_JB_07_a_gang_stays_in_one_part_of_its_topology() -> None:
    nodes = [state(f"n{n}", cpu=2000, labels={"rack": "r1" if n < 2 else "r2"}) for n in range(5)]
    made = schedule([job("a", 6, gang=True, topology="rack")], nodes)
    assert {node for _, node in made.placements} == {"n2", "n3", "n4"}
    none = schedule([job("a", 7, gang=True, topology="rack")], nodes)
    assert none.placements == []
    assert none.reasons["a0"].detail.startswith("6 of 7 would fit on nodes of one rack")
    assert schedule([job("a", 2, gang=True, topology="row")], nodes).reasons["a0"].code == "no_node_matches"


# -- who first ---------------------------------------------------------------------------------------


def test_the_higher_band_comes_first_and_within_one_whoever_has_least() -> None:
    nodes = [state("n1", cpu=3000)]
    made = schedule([job("low", 3, priority=100), job("high", 1, priority=300)], nodes)
    assert made.placements[0] == ("high0", "n1")
    greedy, modest = job("g", 6, owner="greedy"), job("m", 2, owner="modest", created_ms=9)
    assert [t for t, _ in schedule([greedy, modest], [state("n1")]).placements] == ["g0", "m0", "g1", "m1"]
    shares = {"greedy": (3000, 0, 0, 0, 0)}
    assert [t for t, _ in schedule([greedy, modest], [state("n1", cpu=2000)], (), shares).placements] == ["m0", "m1"]


# -- making room ---------------------------------------------------------------------------------------


def test_room_is_made_by_as_few_as_will_do_the_least_important_and_the_youngest() -> None:
    nodes = [state("n1", cpu=4000, reserved=(4000, 4 * GIB, 0, 0, 0)), state("n2", reserved=(4000, 4 * GIB, 0, 0, 0))]
    placed = [on("old", "n1", 100, started=1), on("new", "n1", 100, started=9), on("mid", "n2", 200, 2000)]
    one = schedule([job(priority=300)], nodes, placed)
    assert (one.placements, one.preempt, one.reasons["a0"].code) == ([], ["new"], "preempting")
    two = schedule([job(priority=300, of=need(cpu=2000))], nodes, placed)
    assert sorted(two.preempt) == ["new", "old"]
    small_and_big = [on("s", "n1", 100, 1000, started=9), on("b", "n1", 100, 3000, started=1)]
    pruned = schedule([job(priority=300, of=need(cpu=3000))], nodes[:1], small_and_big)
    assert pruned.preempt == ["b"]


def test_nobody_makes_room_for_an_equal_and_nobody_in_vain() -> None:
    nodes = [state("n1", cpu=2000, reserved=(2000, 2 * GIB, 0, 0, 0))]
    equal = schedule([job(priority=200)], nodes, [on("x", "n1", 200)])
    assert equal.preempt == []
    vain = schedule([job(priority=300, of=need(cpu=3000))], nodes, [on("x", "n1", 100), on("y", "n1", 100)])
    assert (vain.preempt, vain.reasons["a0"].code) == ([], "no_capacity")


def test_who_is_leaving_already_is_waited_for_and_nobody_else_is_sent() -> None:
    leaving = [state("n1", cpu=1000, reserved=(1000, 0, 0, 0, 0), leaving=(1000, 0, 0, 0, 0))]
    leaving.append(state("n2", cpu=500, reserved=(500, 0, 0, 0, 0)))
    made = schedule([job("a", priority=300), job("b", priority=200)], leaving, [on("x", "n2", 100, 500)])
    assert made.preempt == []
    assert (made.reasons["a0"].code, made.reasons["b0"].code) == ("preempting", "no_capacity")


def test_JB_07_a_gang_makes_room_for_itself_whole_or_not_and_ends_whole() -> None:
    nodes = [state(f"n{n}", cpu=1000, reserved=(1000, GIB, 0, 0, 0)) for n in range(3)]
    placed = [on(f"x{n}", f"n{n}", 100) for n in range(3)]
    assert sorted(schedule([job("a", 3, priority=300, gang=True)], nodes, placed).preempt) == ["x0", "x1", "x2"]
    assert schedule([job("a", 4, priority=300, gang=True)], nodes, placed).preempt == []
    gang = [on(f"x{n}", f"n{n}", 100, gang="g") for n in range(3)]
    assert sorted(schedule([job(priority=300)], nodes, gang).preempt) == ["x0", "x1", "x2"]


# -- why not ------------------------------------------------------------------------------------------


def test_every_reason_names_what_is_missing() -> None:
    nodes = [state("n1", cpu=2000, memory=4 * GIB), state("n2", cpu=4000, memory=2 * GIB)]
    cases = {
        "memory_bytes: 8589934592 asked for, at most 4294967296 free, on n1; no node has more": need(memory=8 * GIB),
        "memory_bytes: 3221225472 asked for, 2147483648 free on n2, the nearest": need(cpu=4000, memory=3 * GIB),
        "2 of 2 nodes do not meet: zone is b": need_of(json_text(spec(constraints=[{"key": "zone", "values": ["b"]}]))),
        "2 of 2 nodes do not meet: workload.runtimes has docker": need(runtime="docker"),
        "2 of 2 nodes do not meet: gpu model h100": need(
            resources={"device": {"kind": "gpu", "count": 1, "model": "h100"}}
        ),
    }
    for detail, of in cases.items():
        assert schedule([job(of=of)], nodes).reasons["a0"].detail.startswith(detail)
    drained = [state("n1", blocked="node_draining"), state("n2", blocked="node_draining")]
    assert schedule([job()], drained).reasons["a0"].code == "node_draining"
    assert schedule([job()], []).reasons["a0"].code == "no_node_matches"
    assert schedule([job(slots=0)], nodes).reasons["a0"].code == "quota"


def test_EF_06_an_old_attempt_keeps_its_task_from_its_node_and_a_bad_node_comes_last() -> None:
    here = Waiting("a0", frozenset({"n1"}), "")
    alone = schedule([job()._replace(tasks=(here,))], [state("n1")])
    assert (alone.placements, alone.reasons["a0"].code) == ([], "old_attempt")
    shunned = job()._replace(tasks=(Waiting("a0", frozenset(), "n1"),))
    assert schedule([shunned], [state("n1"), state("n2")]).placements == [("a0", "n2")]
    assert schedule([shunned], [state("n1")]).placements == [("a0", "n1")]


# -- whatever is asked --------------------------------------------------------------------------------

SIZES = st.sampled_from((500, 1000, 2000, 3000))
NODES = st.lists(
    st.builds(
        lambda cpu, zone, blocked, leaving: (cpu, zone, blocked, leaving),
        SIZES,
        st.sampled_from("ab"),
        st.sampled_from(("", "", "", "node_away", "node_draining")),
        st.booleans(),
    ),
    max_size=6,
)
JOBS = st.lists(
    st.tuples(
        SIZES,
        st.integers(1, 4),
        st.sampled_from((100, 200, 300)),
        st.sampled_from(("ann", "bob")),
        st.booleans(),
        st.booleans(),
        st.sampled_from(("", "a", "b", "c")),
        st.integers(0, 5),
    ),
    max_size=7,
)
PLACED = st.lists(st.tuples(st.integers(0, 5), SIZES, st.sampled_from((100, 200, 300)), st.booleans()), max_size=8)


def told(nodes, jobs, placed) -> tuple[list[NodeState], list[Wanting], list[Placed], Schedule]:
    reserved: dict[int, Amounts] = {}
    there = []
    for number, (where, cpu, priority, gang) in enumerate(placed):
        held = plus(reserved.get(where, NOTHING), (cpu, GIB, 0, 0, 0))
        if where < len(nodes) and held[0] <= nodes[where][0]:
            reserved[where] = held
            there.append(on(f"p{number}", f"n{where}", priority, cpu, gang=f"g{priority}" if gang else ""))
    used = {task.node_id for task in there}
    states = [
        state(
            f"n{index}", cpu=cpu, labels={"zone": zone}, blocked=blocked, reserved=reserved.get(index, NOTHING),
            leaving=reserved.get(index, NOTHING) if leaving and f"n{index}" not in used else NOTHING,
        )
        for index, (cpu, zone, blocked, leaving) in enumerate(nodes)
    ]  # fmt: skip
    wanting = []
    for index, (cpu, tasks, priority, owner, gang, spread, zone, slots) in enumerate(jobs):
        constraints = [{"key": "zone", "values": [zone]}] if zone else []
        of = need_of(json_text(spec(cpu=cpu, constraints=constraints)))
        more = {"gang": gang, "spread": spread, "slots": slots, "topology": "zone" if gang and spread else ""}
        wanting.append(job(f"j{index}-", tasks, priority=priority, owner=owner, of=of, created_ms=index, **more))
    return states, wanting, there, schedule(wanting, states, there)


@given(NODES, JOBS, PLACED)
@settings(max_examples=400, deadline=None)
def test_properties_of_every_pass(nodes, jobs, placed) -> None:
    states, wanting, there, made = told(nodes, jobs, placed)
    assert told(nodes, jobs, placed)[3] == made  # the same answer
    shuffled = schedule(list(reversed(wanting)), list(reversed(states)), list(reversed(there)))
    assert shuffled == made  # whatever the order of the input
    free = {node.node_id: minus(node.facts.total, node.reserved) for node in states}
    by_task = {task.task_id: each for each in wanting for task in each.tasks}
    got = dict(made.placements)
    assert len(got) == len(made.placements)
    for task_id, node_id in made.placements:
        node = next(node for node in states if node.node_id == node_id)
        assert not node.blocked
        assert not unmet(by_task[task_id].need.where, node.facts)
        free[node_id] = minus(free[node_id], by_task[task_id].need.amounts)
    assert all(left >= 0 for amounts in free.values() for left in amounts)  # nothing is given twice
    assert set(got) | set(made.reasons) == set(by_task)  # every other one knows why
    assert not set(got) & set(made.reasons)
    assert {reason.code for reason in made.reasons.values()} <= set(REASONS)
    for each in wanting:
        placed_of = [got[task.task_id] for task in each.tasks if task.task_id in got]
        assert len(placed_of) <= each.slots
        if each.gang:
            assert len(placed_of) in (0, len(each.tasks))
        if each.topology and placed_of:
            zones = {node.facts.values["zone"] for node in states if node.node_id in placed_of}
            assert len(zones) == 1
    _no_inversion(states, wanting, made, free)
    _fair_victims(wanting, there, made)


def _no_inversion(states, wanting, made, free) -> None:
    """A task that waits for room fits nowhere even if all that is less important were not there."""
    got = dict(made.placements)
    for each in wanting:
        waits = [task for task in each.tasks if task.task_id in made.reasons]
        if each.gang or not waits or made.reasons[waits[0].task_id].code != "no_capacity":
            continue
        for node in states:
            lower = [
                other.need.amounts
                for other in wanting
                for task in other.tasks
                if other.priority < each.priority and got.get(task.task_id) == node.node_id
            ]
            room = free[node.node_id]
            for amounts in lower:
                room = plus(room, amounts)
            promised = any(reason.code == "preempting" for reason in made.reasons.values())
            assert node.blocked or unmet(each.need.where, node.facts) or promised or not fits(each.need.amounts, room)


def _fair_victims(wanting, there, made) -> None:
    victims = [task for task in there if task.task_id in made.preempt]
    assert len(set(made.preempt)) == len(made.preempt) == len(victims)
    waiting = [each.priority for each in wanting for task in each.tasks if task.task_id in made.reasons]
    for victim in victims:
        assert any(victim.priority < priority for priority in waiting)
        if victim.gang:
            assert {t.task_id for t in there if t.gang == victim.gang} <= set(made.preempt)


def test_a_thousand_jobs_and_a_thousand_nodes_take_well_under_a_second() -> None:
    nodes = [state(f"n{n:04}", cpu=4000 + n % 7 * 100, labels={"zone": "ab"[n % 2]}) for n in range(1000)]
    same = [job(f"j{n:04}-", owner=f"u{n % 9}", created_ms=n) for n in range(1000)]
    unlike = [job(f"j{n:04}-", of=need(cpu=900 + n), created_ms=n) for n in range(1000)]
    full = [node._replace(reserved=node.facts.total) for node in nodes]
    crowd = [on(f"x{n}", f"n{n % 1000:04}", 100, 2000) for n in range(2000)]
    took = {}
    for name, jobs, places, placed, count in (
        ("alike, free", same, nodes, (), 1000),
        ("one of a thousand tasks", [job(tasks=1000, spread=True)], nodes, (), 1000),
        ("unlike, free", unlike, nodes, (), 1000),
        ("unlike, full", unlike, full, (), 0),
        ("unlike, full, preempting", unlike, full, crowd, 0),
    ):
        began = time.process_time()
        made = schedule(jobs, places, placed)
        took[name] = time.process_time() - began
        assert len(made.placements) == count, name
    print({name: f"{seconds * 1000:.0f} ms" for name, seconds in took.items()})
    assert max(took.values()) < 1.0, took
