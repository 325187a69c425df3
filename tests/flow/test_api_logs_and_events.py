"""Log pages and event streams: nothing missing, nothing twice, over cuts and to the end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.wire.node import Progress
from hostler.wire.report import LogLine, StepProgress, TaskReport, TaskStatus
from hostler.wire.task import TaskSpec
from support.fake_node import FakeNode, Session
from support.plane import Plane, operations, plane, sse


def lines(node: FakeNode, spec: TaskSpec, first: int, count: int, step_id: str = "write"):
    common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid, "step_id": step_id, "step_index": 0}
    bodies = [LogLine(**common, stream="stdout", text=f"line {n}", at_ms=n) for n in range(first, first + count)]
    return node.reports(*bodies)


async def started(control: Plane, node: FakeNode, session: Session) -> tuple[str, TaskSpec]:
    operation_id = await control.submit(node)
    (spec,) = await session.take()
    common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
    await session.report(node.reports(TaskReport(**common, status=TaskStatus.RUNNING)))
    return f"{operations()}/{operation_id}", spec


def texts(events: list[Any]) -> list[str]:
    return [data["text"] for _, name, data in events if name == "log"]


async def test_API_11_ten_thousand_lines_are_paged_without_gap_or_repeat(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            for first in range(0, 10_000, 2_000):
                await session.report(lines(node, spec, first, 2_000))
        seen, cursor = [], ""
        while True:
            page = await control.call("GET", f"{path}/logs", params={"cursor": cursor, "page_size": 999})
            assert len(page["items"]) <= 999
            seen += [item["text"] for item in page["items"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert seen == [f"line {n}" for n in range(10_000)]


async def test_API_11_lines_of_one_step_alone(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            await session.report(lines(node, spec, 0, 3) + lines(node, spec, 3, 2, "other"))
        page = await control.call("GET", f"{path}/logs", params={"step_id": "other"})
        assert [item["text"] for item in page["items"]] == ["line 3", "line 4"]


@pytest.mark.parametrize("query", [{"page_size": "0"}, {"page_size": "1001"}, {"page_size": "ten"}, {"page_size": "²"}])
async def test_a_page_size_out_of_bounds_is_refused(query: dict[str, str], tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        problem = await control.call("GET", operations(), 422, params=query)
        assert problem["error_code"] == "invalid_request"


async def test_a_made_up_cursor_or_event_id_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        operation_id = await control.submit(node)
        path = f"{operations()}/{operation_id}"
        for name in ("logs", "events"):
            query = {"follow": "true"} if name == "logs" else {}
            answer = await control.http.get(f"{path}/{name}", params=query, headers={"last-event-id": "abc"})
            assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_cursor")
        for made_up in ("abc", "bG9nOg", "bG9nOi0x", "²"):
            problem = await control.call("GET", f"{path}/logs", 422, params={"cursor": made_up})
            assert problem["error_code"] == "invalid_cursor"


async def test_API_12_following_sees_lines_as_they_come_resumes_where_it_was_cut_and_ends(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            await session.report(lines(node, spec, 0, 5))
            async with control.http.stream("GET", f"{path}/logs", params={"follow": "true"}) as cut:
                assert cut.headers["content-type"].startswith("text/event-stream")
                recorded = ""
                async for chunk in cut.aiter_text():
                    recorded += chunk
                    if len(texts(sse(recorded))) == 5:
                        await session.report(lines(node, spec, 5, 1))
                    if len(texts(sse(recorded))) == 6:
                        break
            first = sse(recorded[: recorded.rindex("\n\n") + 2])
            assert texts(first) == [f"line {n}" for n in range(6)]
            headers = {"last-event-id": first[-1][0]}

            async def follow() -> str:
                answer = await control.http.get(f"{path}/logs", params={"follow": "true"}, headers=headers)
                return answer.text

            async with asyncio.TaskGroup() as group:
                rest = group.create_task(follow())
                for n in range(6, 20):
                    await session.report(lines(node, spec, n, 1))
                await session.report(node.finished(spec))
        events = sse(rest.result())
        assert texts(events) == [f"line {n}" for n in range(6, 20)]
        assert events[-1][1:] == ("end", {"status": "succeeded"})


async def test_OB_06_a_finished_operation_still_has_its_lines_and_following_it_ends_at_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            await session.report(lines(node, spec, 0, 3) + node.finished(spec))
        async with asyncio.timeout(15):
            answer = await control.http.get(f"{path}/logs", params={"follow": "true"})
        events = sse(answer.text)
        assert texts(events) == ["line 0", "line 1", "line 2"]
        assert events[-1][1] == "end"


async def test_events_carry_progress_as_it_happens_and_every_durable_event_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            step = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid, "step_id": "write", "step_index": 0}
            recorded = ""
            async with control.http.stream("GET", f"{path}/events") as stream, asyncio.timeout(10):
                async for chunk in stream.aiter_text():
                    recorded += chunk
                    if recorded == chunk:
                        await session.say(Progress((StepProgress(**step, done_units=5, total_units=10),)))
                    if '"done_units":5' in recorded and node.chain_index == 0:
                        await session.report(node.finished(spec))
        events = sse(recorded)
        durable = [int(id_) for id_, _, _ in events if id_]
        assert durable == sorted(set(durable))
        stored = control.rows("SELECT id FROM events WHERE operation_id = ? ORDER BY id", path.rpartition("/")[2])
        assert [(each,) for each in durable] == stored
        assert [data["done_units"] for _, _, data in events if "done_units" in data] == [5]
        assert events[-1][1] == "end"


async def test_API_12_events_resume_after_the_last_one_seen(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            await session.report(node.finished(spec))
        whole = sse((await control.http.get(f"{path}/events")).text)
        middle = len(whole) // 2
        headers = {"last-event-id": whole[middle][0]}
        rest = sse((await control.http.get(f"{path}/events", headers=headers)).text)
        assert rest == whole[middle + 1 :]


async def test_a_stream_of_a_quiet_operation_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        operation_id = await control.submit(node)
        stream = control.http.stream("GET", f"{operations()}/{operation_id}/events")
        answer = await stream.__aenter__()
        assert answer.status_code == 200
        started_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started_at < 5
    await stream.__aexit__(None, None, None)


async def test_OP_17_a_cancel_is_delivered_and_a_retry_opens_another_attempt(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            path, spec = await started(control, node, session)
            await control.call("POST", f"{path}/cancel", 202)
            (order,) = await session.envelopes()
            assert "cancel" in order.payload_type
            common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
            await session.report(node.reports(TaskReport(**common, status=TaskStatus.CANCELED, error_code="canceled")))
            assert (await control.call("GET", path))["status"] == "canceled"
            await control.call("POST", f"{path}/retry", 202)
            (again,) = await session.take()
            assert again.attempt_number == spec.attempt_number + 1
            await session.report(node.finished(again))
        assert (await control.call("GET", path))["status"] == "succeeded"
