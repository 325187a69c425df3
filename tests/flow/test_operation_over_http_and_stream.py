"""One operation from POST to receipts, over the real edges: HTTP, mutual-TLS stream, SSE."""

from pathlib import Path

from hostler.pki.bundle import verify_bundle
from support.plane import operations, plane, sse, trust, until


async def test_API_07_08_a_submit_is_delivered_run_and_seen_with_its_receipts(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        assert await control.publish() == ["demo.write@v1"]
        node = await control.enroll()
        async with node.session() as session:
            operation_id = await control.submit(node)
            (spec,) = await session.take()
            assert spec.operation_id == operation_id
            assert spec.node_id == node.node_id
            await session.report(node.finished(spec))
        seen = await control.operation(operation_id)
        assert seen["status"] == "succeeded"
        (step,) = seen["tasks"][0]["steps"]
        assert (step["status"], step["receipt_digest"]) == ("succeeded", node.chain_head)
        path = f"{operations()}/{operation_id}"
        events = sse((await control.http.get(f"{path}/events")).text)
        assert next(name for _, name, _ in events) == "operation.requested"
        assert events[-1][1:] == ("end", {"status": "succeeded"})
        bundle = (await control.http.get(f"{path}/audit-bundle")).content
        report = verify_bundle(bundle, trust(tmp_path))
        assert report.ok
        assert report.anchored
        assert [each.length for each in report.nodes] == [1]


async def test_the_nodes_of_a_project_show_who_is_connected(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll(labels={"rack": "r1"})

        async def connection() -> str:
            (found,) = (await control.call("GET", "/api/v1/projects/train/nodes"))["items"]
            return found["connection"]

        assert await connection() != "connected"
        async with node.session():
            assert await connection() == "connected"

        async def gone() -> bool:
            return await connection() != "connected"

        assert await until(gone)
