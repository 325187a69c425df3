"""The SDK inside one process: contexts, endpoints, actors, callables (TE-05..08, TE-13..19, JB-09, OD-32, TP-16)."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hostler import sdk
from hostler.sdk import info, jobs, signing
from hostler.sdk.local import LocalHouse

WORKER = "unit.sdk.sdk_actors:Worker"


@pytest.fixture
def house() -> Iterator[LocalHouse]:
    made = LocalHouse()
    yield made
    made.close()


def test_TE_05_a_callable_sees_its_job_and_the_environment_is_never_written() -> None:
    before = dict(os.environ)
    seen = sdk.run_callable(sdk.job_info)
    assert seen is not None
    assert seen.job_id.startswith("local-")
    assert dict(os.environ) == before
    assert sdk.job_info() is None


def test_TE_05_TP_16_two_jobs_in_parallel_each_see_their_own_context() -> None:
    meet = threading.Barrier(2)

    def one() -> tuple[str, str]:
        first = sdk.context().info.job_id
        meet.wait(5)
        return first, sdk.context().info.job_id

    with ThreadPoolExecutor(2) as pool:
        a, b = (each.result() for each in [pool.submit(sdk.run_callable, one) for _ in range(2)])
    assert a[0] == a[1]
    assert b[0] == b[1]
    assert a[0] != b[0]


def test_TE_07_without_an_address_there_is_no_client_and_no_registry() -> None:
    around = sdk.run_callable(sdk.context)
    assert around.client is None
    assert around.registry is None
    with pytest.raises(sdk.NoController):
        around.submit("x", ("true",))
    with pytest.raises(sdk.NotInTask):
        sdk.context()


def test_TE_07_TE_01_the_environment_makes_the_context_and_ours_wins_over_the_alias() -> None:
    found = info.from_environment(
        {
            "HOSTLER_JOB_ID": "op_1", "IRIS_JOB_ID": "other", "IRIS_TASK_ID": "tsk_1", "HOSTLER_JOB": "/ann/a/b",
            "HOSTLER_PARENT_JOB": "/ann/a", "HOSTLER_NAMESPACE": "/ann/a", "HOSTLER_PORT_ACTOR": "30001",
            "HOSTLER_CONTROLLER_ADDRESS": "unix:///run/hostler/task.sock", "HOSTLER_TASK_INDEX": "3",
            "HOSTLER_PORT_BAD": "x",
        }
    )  # fmt: skip
    assert found is not None
    assert (found.job_id, found.task_id, found.task_index) == ("op_1", "tsk_1", 3)
    assert found.parent_job_id == "/ann/a"
    assert found.ports == {"actor": 30001}
    with info.inside(found):
        assert isinstance(sdk.context().client, sdk.TaskClient)
        assert sdk.get_port("actor") == 30001
        with pytest.raises(KeyError):
            sdk.get_port("other")


def test_TE_08_a_root_job_has_no_parent() -> None:
    found = info.from_environment({"HOSTLER_JOB_ID": "op_1", "HOSTLER_TASK_ID": "t", "HOSTLER_PARENT_JOB": ""})
    assert found is not None
    assert found.parent_job_id is None


def test_TE_03_an_address_of_the_control_plane_is_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="HOSTLER_CONTROLLER_ADDRESS"):
        kept = jobs.without_address({"HOSTLER_CONTROLLER_ADDRESS": "http://evil", "A": "b"})
    assert kept == {"A": "b"}


def test_TE_16_TE_17_names_are_exact_and_of_one_namespace(house: LocalHouse) -> None:
    def named() -> None:
        around = sdk.context()
        assert around.registry is not None
        around.registry.register("ab", "127.0.0.1:1")
        assert around.resolver.resolve("a").first() is None
        assert around.resolver.resolve("ab").first() is not None

    def other() -> None:
        around = sdk.context()
        assert around.resolver.resolve("ab").first() is None
        assert around.resolver_for_job("/ann/one/child").resolve("ab").first() is not None

    house.run("/ann/one", named)
    house.run("/ann/one/child", lambda: sdk.context().resolver.resolve("ab").endpoints[0])
    house.run("/ann/two", other)


def test_TE_19_actors_in_child_jobs_are_created_waited_for_and_called(house: LocalHouse) -> None:
    def main() -> None:
        handle = sdk.create_actor(WORKER, 10, name="one")
        assert handle.add(5) == 15
        group = sdk.create_actor_group(WORKER, 0, name="w", count=2)
        assert [each.name for each in group.wait_ready(10)] == ["w-0", "w-1"]
        assert sorted(group.pool().map("add", [1, 2, 3, 4])) == [1, 2, 3, 4]
        assert group.pool().broadcast("add", 7) == [7, 7]
        assert handle.add.remote(1).result(10) == 11
        group.cancel()
        assert group.jobs[0].wait(10)["status"] == "canceled"

    house.run("/ann/main", main)


def test_TE_06_a_handler_sees_the_job_that_serves_it(house: LocalHouse) -> None:
    def main() -> str:
        group = sdk.create_actor_group(WORKER, 0, name="w", count=1)
        (handle,) = group.wait_ready(10)
        job: str = handle.whose_job()
        return job

    assert house.run("/ann/main", main) == "/ann/main/w-0"


def test_TE_18_a_handle_keeps_the_job_of_its_actor_over_namespaces(house: LocalHouse) -> None:
    def serve(ready: threading.Event, stop: threading.Event) -> None:
        from unit.sdk.sdk_actors import Worker

        around = sdk.context()
        assert around.registry is not None
        with sdk.ActorServer("127.0.0.1") as server:
            server.register("c", Worker(1))
            server.serve_background()
            around.registry.register("c", port=server.port)
            ready.set()
            stop.wait(10)

    def call() -> int:
        text = str(sdk.ActorHandle("c", "/ann/coordinator"))
        result: int = sdk.ActorHandle.parse(text).add(1)
        with pytest.raises(sdk.ActorNotFound):
            sdk.ActorHandle("c", timeout_s=0.2).add(1)  # not in its own namespace
        return result

    ready, stop = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(house.run, "/ann/coordinator", serve, ready, stop)
        assert ready.wait(10)
        assert house.run("/ann/worker", call) == 2
        stop.set()
        serving.result(10)


def test_errors_of_actors_are_typed(house: LocalHouse) -> None:
    def main() -> None:
        (handle,) = sdk.create_actor_group(WORKER, 0, name="w", count=1).wait_ready(10)
        with pytest.raises(sdk.ActorError) as raised:
            handle.fail("no")
        assert (raised.value.type, raised.value.message) == ("ValueError", "no")
        with pytest.raises(sdk.ActorTimeout):
            handle.call("sleep", 5, timeout_s=0.3)
        for private in ("_secret", "__init__", "missing"):
            with pytest.raises(sdk.ActorNotFound):
                handle.call(private)
        with pytest.raises(sdk.SdkError, match="no JSON"):
            handle.add(object())
        with pytest.raises(sdk.ActorNotFound):
            sdk.ActorHandle("nobody", timeout_s=0.2).call("x")

    house.run("/ann/main", main)


def test_a_job_that_ends_instead_of_serving_is_told_by_wait_ready(house: LocalHouse) -> None:
    def main() -> None:
        with pytest.raises(sdk.SdkError, match="failed"):
            sdk.create_actor_group("unit.sdk.sdk_actors:Missing", name="w", count=1).wait_ready(10)

    house.run("/ann/main", main)


def test_OD_32_pickles_go_within_a_namespace_where_the_owner_wants_them(house: LocalHouse) -> None:
    def main() -> None:
        sdk.create_actor_group(WORKER, 0, name="open", count=1, pickle=True).wait_ready(10)
        sdk.create_actor_group(WORKER, 0, name="shut", count=1).wait_ready(10)
        willing, unwilling = sdk.ActorHandle("open-0", pickle=True), sdk.ActorHandle("shut-0", pickle=True)
        assert willing.echo({1, 2}) == {1, 2}
        with pytest.raises(sdk.SdkError, match="no pickles"):
            unwilling.echo({1, 2})

    def stranger() -> None:
        with pytest.raises(sdk.ActorNotFound, match="not signed"):
            sdk.ActorHandle("open-0", "/ann/main", pickle=True, timeout_s=3).echo({1, 2})
        assert sdk.ActorHandle("open-0", "/ann/main").add(1) == 1  # JSON is for all of the project

    house.run("/ann/main", main)
    house.run("/bob/other", stranger)


def test_JB_09_a_callable_is_named_by_its_module_and_a_closure_is_refused() -> None:
    entry = sdk.Entrypoint.of("unit.sdk.sdk_actors:write", "x", to="y")
    assert entry.command[:4] == (*jobs.RUN, "unit.sdk.sdk_actors:write")
    with pytest.raises(sdk.SdkError, match="cannot be imported"):
        sdk.Entrypoint.of(lambda: None)


def test_JB_09_a_child_runs_a_callable_and_its_end_is_seen(house: LocalHouse, tmp_path) -> None:
    def main() -> None:
        target = str(tmp_path / "out")
        job = sdk.submit("child", sdk.Entrypoint.of("unit.sdk.sdk_actors:write", target, text="done"))
        assert job.job == "/ann/main/child"
        assert job.wait(10)["status"] == "succeeded"
        bad = sdk.submit("bad", sdk.Entrypoint.of("unit.sdk.sdk_actors:missing"))
        assert bad.wait(10)["status"] == "failed"

    house.run("/ann/main", main)
    assert (tmp_path / "out").read_text() == "done"


def test_a_call_counts_once_and_not_for_long() -> None:
    seen, now = signing.Seen(), f"{time.time()}"
    assert seen.is_fresh("n", now)
    assert not seen.is_fresh("n", now)
    assert not seen.is_fresh("m", f"{time.time() - 1000}")
    assert not seen.is_fresh("o", "yesterday")
