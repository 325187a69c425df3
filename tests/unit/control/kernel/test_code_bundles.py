"""What the kernel decides about code bundles: whose they are, how many, who may have the bytes (JB-08)."""

from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel import code_bundles
from hostler.control.kernel.bundle_commands import BundleGrant, DeleteBundle, ExpireBundles, StoreBundle, UseBundle
from hostler.control.kernel.bundle_rows import BundleRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from support.control import USER
from support.keys import NOW
from support.memory_view import Bench

SHA, OTHER = "a" * 64, "b" * 64
GIB = 1 << 30


def stored(bench: Bench, sha256: str = SHA, **changes: Any) -> bool:
    values = {"actor": USER, "org_id": "acme", "project_id": "train", "size_bytes": 10, "quota_bytes": GIB}
    new: bool = bench.run(StoreBundle(sha256=sha256, **(values | changes)))
    return new


def draft_of(bench: Bench) -> Draft:
    return Draft(bench.view, bench.settings, bench.ids, bench.now)


def test_the_same_bytes_again_are_no_event_and_of_use_now() -> None:
    bench = Bench()
    assert stored(bench)
    bench.now += 5
    assert not stored(bench)
    row = bench.view.get(BundleRow, ("acme", "train", SHA))
    assert (row.created_at_ms, row.last_used_ms) == (NOW, NOW + 5)
    assert [event.type for event in bench.events] == ["bundle.stored"]


def test_a_project_keeps_so_many_bytes_and_what_was_deleted_does_not_count() -> None:
    bench = Bench()
    stored(bench, size_bytes=GIB - 5)
    more = StoreBundle(
        actor=USER, org_id="acme", project_id="train", sha256=OTHER, size_bytes=6, quota_bytes=GIB
    )  # fmt: skip
    assert bench.refusal(more).code == "bundle_quota"
    stored(bench, OTHER, project_id="serve")  # each project has its own
    bench.run(DeleteBundle(actor=USER, org_id="acme", project_id="train", sha256=SHA))
    bench.run(more)


def test_AZ_10_a_submit_may_name_only_what_its_own_project_holds() -> None:
    bench = Bench()
    stored(bench)
    assert code_bundles.require(draft_of(bench), "acme", "train", SHA).sha256 == SHA
    for org_id, project_id, sha256 in (("acme", "serve", SHA), ("rival", "train", SHA), ("acme", "train", OTHER)):
        with pytest.raises(HostlerError) as failed:
            code_bundles.require(draft_of(bench), org_id, project_id, sha256)
        assert failed.value.code == "bundle_missing"
    bench.run(DeleteBundle(actor=USER, org_id="acme", project_id="train", sha256=SHA))
    with pytest.raises(HostlerError):
        code_bundles.require(draft_of(bench), "acme", "train", SHA)


def running(bench: Bench, changes: Any = ()) -> UseBundle:
    """A job whose task runs on a node; the question of that node."""
    values = {
        "operation_id": "op_1", "operation_type": "job.container.run", "version": "v1", "org_id": "acme",
        "project_id": "train", "inputs": f'{{"bundle": "{SHA}"}}', "mode": "apply", "status": "running",
        "cancel_requested_ms": 0,
    }  # fmt: skip
    task = {
        "task_id": "tsk_1", "operation_id": "op_1", "node_id": "nod_1", "replica_index": 0, "created_at_ms": NOW,
        "state": "running", "attempt_uid": "att_1",
    }  # fmt: skip
    node, said = {"node_id": "nod_1", "state": "active"}, dict(changes)
    for type_, own in ((OperationRow, values), (TaskRow, task), (NodeRow, node)):
        bench.view.put(filled(type_, own | said.pop(type_, {})))
    bench.view.put(filled(NodeRow, {"node_id": "nod_2", "state": "active"}))
    asked = {"node_id": "nod_1", "task_id": "tsk_1", "attempt_uid": "att_1", "sha256": SHA}
    return UseBundle(actor=USER, **(asked | said))


def filled(type_: Any, values: dict[str, Any]) -> Any:
    """A row with what is said, and nothing in what is not."""
    blank = {str: "", int: 0, bytes: b""}
    named = {field.name: blank.get(field.type) for field in msgspec.structs.fields(type_) if field.required}
    return type_(**named | values)


def test_JB_08_a_node_has_the_bundle_of_a_task_that_it_runs() -> None:
    bench = Bench()
    stored(bench, size_bytes=77)
    assert bench.run(running(bench)) == BundleGrant("acme", "train", 77)


@pytest.mark.parametrize(
    "changes",
    [
        {"node_id": "nod_2"},
        {"task_id": "tsk_2"},
        {"attempt_uid": "att_0"},
        {"sha256": OTHER},
        {NodeRow: {"state": "revoked"}},
        {TaskRow: {"state": "queued"}},
        {TaskRow: {"state": "succeeded"}},
        {TaskRow: {"cancel_requested": 1}},
        {OperationRow: {"cancel_requested_ms": 1}},
        {OperationRow: {"mode": "plan"}},
        {OperationRow: {"operation_type": "demo.write"}},
        {OperationRow: {"inputs": "{}"}},
    ],
    ids=str,
)
def test_JB_08_and_no_other_bundle_and_no_other_node(changes: Any) -> None:
    bench = Bench()
    stored(bench)
    stored(bench, OTHER)
    assert bench.refusal(running(bench, changes)).code == "bundle_not_bound"


def test_AZ_10_a_job_gets_no_bundle_of_another_project_by_its_digest() -> None:
    bench = Bench()
    stored(bench, project_id="serve")
    assert bench.refusal(running(bench)).code == "bundle_missing"


def test_what_nobody_used_for_long_goes_and_what_an_open_job_names_stays() -> None:
    bench = Bench()
    stored(bench)
    stored(bench, OTHER)
    running(bench)
    bench.now += 1000
    assert bench.run(ExpireBundles(unused_since_ms=NOW + 1)) == (("acme", "train", OTHER),)
    in_use = DeleteBundle(actor=USER, org_id="acme", project_id="train", sha256=SHA)
    assert bench.refusal(in_use).code == "bundle_in_use"
    bench.view.put(filled(OperationRow, {"operation_id": "op_1", "project_id": "train", "status": "failed"}))
    assert bench.run(ExpireBundles(unused_since_ms=NOW + 1)) == ()  # it was of use when it was looked at
    assert bench.run(ExpireBundles(unused_since_ms=NOW + 1001)) == (("acme", "train", SHA),)
    assert stored(bench), "the same bytes may come again"
