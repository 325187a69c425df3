"""The node's own record of its allocation: OP-09, AL-06 (the node's half), K2, and what a taken-over control plane
cannot do with it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.journal import binding
from hostler.agent.journal.binding import Binding
from hostler.base.errors import HostlerError
from hostler.catalog.manifest import Catalog
from hostler.wire.report import TaskStatus
from hostler.wire.task import TaskMode, TaskSpec
from support import builders
from support.agent import Core, core, refused
from support.allocations import profiles
from support.keys import Keys

TYPES = {
    "provision": ("allocation_provision", "allocation.runtime.provision"),
    "deprovision": ("allocation_release", "allocation.runtime.deprovision"),
    "identity_revoke": ("allocation_release", "allocation.identity.revoke"),
    "reclaim_verify": ("allocation_release", "node.reclaim.verify"),
}


def catalog(keys: Keys) -> Catalog:
    return builders.catalog(keys, builders.definition(), *profiles())


def link(name: str, allocation_id: str = "alc_1", **changes: Any) -> dict[str, Any]:
    trigger, type_ = TYPES[name]
    return {"ref": f"{type_}@v1", "trigger_source": trigger, "allocation_id": allocation_id, **changes}


async def tell(node: Core, **changes: Any) -> Any:
    spec = builders.task(node.keys, node.catalog, **changes)
    return await node.deliver(builders.envelope(node.keys, spec))


async def test_OP_09_a_signed_provision_binds_and_only_a_passed_verification_unbinds(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys, catalog=catalog) as node:
        await node.run_task(**link("provision"))
        assert node.journal.binding is not None
        assert node.journal.binding.allocation_id == "alc_1"
        await node.run_task(ref="demo.write@v1", allocation_id="alc_1")
        assert refused(await tell(node, ref="demo.write@v1")) == ("wrong_allocation", "allocation")
        assert refused(await tell(node, **link("provision", "alc_2"))) == ("wrong_allocation", "allocation")
    stages = []
    for name in ("deprovision", "identity_revoke", "reclaim_verify"):
        async with core(tmp_path, keys, catalog=catalog) as node:  # a restart between all of them
            await node.run_task(**link(name))
            stages.append(node.journal.binding.stage if node.journal.binding else "none")
    assert stages == ["deprovisioned", "revoked", "none"]
    async with core(tmp_path, keys, catalog=catalog) as node:
        await node.run_task(**link("provision", "alc_2"))


async def test_AL_06_the_node_refuses_a_link_whose_predecessor_did_not_succeed_here(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        assert refused(await tell(node, **link("identity_revoke")))[0] == "chain_order"
        assert refused(await tell(node, **link("reclaim_verify")))[0] == "chain_order"
        await node.run_task(**link("provision"))
        assert refused(await tell(node, **link("identity_revoke")))[0] == "chain_order"
        await node.run_task(**link("deprovision"))
        assert refused(await tell(node, **link("reclaim_verify")))[0] == "chain_order"
        assert refused(await tell(node, **link("deprovision", "alc_2")))[0] == "wrong_allocation"


async def test_a_link_that_failed_reaches_nothing(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        await node.run_task(**link("provision"))
        node.cancelled.set()
        await tell(node, **link("deprovision"))
        assert (await node.task_reports())[-1].status is TaskStatus.CANCELED
        assert node.journal.binding is not None
        assert node.journal.binding.stage == "releasing"
        node.cancelled.clear()
        assert refused(await tell(node, **link("identity_revoke")))[0] == "chain_order"
        assert refused(await tell(node, ref="demo.write@v1", allocation_id="alc_1"))[0] == "wrong_allocation"
        await node.run_task(**link("deprovision"))
        await node.run_task(**link("identity_revoke"))


async def test_OD_17_a_forced_revoke_runs_at_any_stage_and_moves_nothing(tmp_path: Path) -> None:
    forced = link("identity_revoke", trigger_source="system")
    async with core(tmp_path, catalog=catalog) as node:
        await node.run_task(**link("provision"))
        await node.run_task(**forced)
        before = node.journal.binding
        assert before is not None
        assert before.stage == "bound"
        assert refused(await tell(node, **link("reclaim_verify")))[0] == "chain_order"
        assert refused(await tell(node, **forced | {"allocation_id": "alc_2"}))[0] == "wrong_allocation"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (link("provision", trigger_source="allocation_release"), "chain_order"),
        (link("reclaim_verify") | {"ref": "demo.write@v1"}, "chain_order"),
        (link("provision", trigger_source="whoever"), "chain_order"),
        (link("provision", ""), "chain_order"),
        (link("provision", mode=TaskMode.PLAN), "chain_order"),
    ],
)
async def test_a_task_that_only_calls_itself_a_link_is_refused(changes, code, tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        assert refused(await tell(node, **changes)) == (code, "allocation")
        assert node.journal.binding is None


async def test_a_tenants_task_of_a_links_type_is_none(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        await node.run_task(ref="node.reclaim.verify@v1")  # of a node in no allocation: an ordinary task
        await node.run_task(**link("provision"))
        assert refused(await tell(node, **link("identity_revoke", trigger_source="")))[0] == "chain_order"


async def test_the_next_envelope_of_a_batch_is_judged_by_the_binding_of_the_one_before(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        verdict: Any = node.judge(
            builders.envelope(node.keys, builders.task(node.keys, node.catalog, **link("provision")))
        )
        accepting = node.journal.accept(verdict)
        spec = builders.task(node.keys, node.catalog, ref="demo.write@v1")
        assert refused(node.judge(builders.envelope(node.keys, spec)))[0] == "wrong_allocation"
        await accepting


KEYS = Keys()
HELD = catalog(KEYS)
MOVES = st.lists(st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from("12"), st.booleans()), max_size=30)


@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_AL_06_no_order_of_tasks_leads_out_of_an_allocation_but_the_whole_chain(moves) -> None:
    present: Binding | None = None
    passed: list[str] = []
    for name, which, succeeds in moves:
        task: TaskSpec = builders.task(KEYS, HELD, **link(name, f"alc_{which}"))
        try:
            binding.check(task, present)
        except HostlerError:
            continue
        before = present
        present = binding.after_accept(present, task)
        assert before is None or present is None or present.allocation_id == before.allocation_id
        if name in ("provision", "deprovision"):
            passed = []
        if succeeds:
            passed.append(name)
            present = binding.after_success(present, task.task_id)
        if before is not None and present is None:
            assert [p for p in passed if p != "provision"][-1] == "reclaim_verify"
            assert set(passed) >= {"deprovision", "identity_revoke", "reclaim_verify"}
        elif present is not None:
            assert msgspec.json.decode(msgspec.json.encode(present), type=Binding | None) == present


def test_the_success_of_another_task_is_no_step_of_the_chain() -> None:
    present = Binding(allocation_id="alc_1", stage="revoked", task_id="tsk_verify", link="reclaim_verify")
    assert binding.after_success(present, "tsk_other") == present
    assert binding.after_success(present, "tsk_verify") is None
