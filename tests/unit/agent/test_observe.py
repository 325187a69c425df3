"""The node's own /metrics and /health on a Unix socket (OB-04)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostler.agent import observe
from hostler.agent.observe import GAUGES, Observer, metrics_text
from hostler.base.errors import HostlerError

STATUS: dict[str, Any] = {
    "session": "connected",
    "hold": "",
    "drift": "",
    "storage": "ok",
    "running_tasks": 3,
    "hung": 0,
    "outbox_rows": 7,
    "relays": 1,
    "log_waiting_bytes": 4096,
    "catalog_version": 2,
    "keyset_version": 1,
    "certificate_expires_ms": 1_800_000_000_000,
}


@asynccontextmanager
async def observed(path: Path, status: dict[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    task = asyncio.create_task(Observer(path, lambda: status).run())
    while not path.exists() and not task.done():
        await asyncio.sleep(0.01)
    transport = httpx.AsyncHTTPTransport(uds=str(path), retries=3)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_OB_04_both_are_served_to_owner_and_group_alone(tmp_path: Path) -> None:
    path = tmp_path / "observe.sock"
    async with observed(path, STATUS) as client:
        assert path.stat().st_mode & 0o777 == 0o660
        found = {f.name: f for f in text_string_to_metric_families((await client.get("/metrics")).text)}
        assert set(found) == {f"hostler_agent_{name}" for name, *_ in GAUGES}
        assert found["hostler_agent_outbox_rows"].samples[0].value == 7
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/else")).status_code == 404
        assert (await client.post("/metrics")).status_code == 405
    assert not path.exists()


@pytest.mark.parametrize("change", [{"session": "dialing"}, {"hold": "journal_lost"}, {"storage": "unhealthy"}])
async def test_OB_04_a_node_that_is_not_well_says_so(change: dict[str, str], tmp_path: Path) -> None:
    async with observed(tmp_path / "observe.sock", STATUS | change) as client:
        assert (await client.get("/health")).status_code == 503


def test_OB_04_nothing_that_a_node_calls_itself_is_in_a_metric() -> None:
    odd = STATUS | {"hold": 'x{evil="1"} 5\nevil 1', "drift": "evil", "session": "evil", "node_id": "evil"}
    text = metrics_text(odd)
    assert b"evil" not in text
    families = list(text_string_to_metric_families(text.decode()))
    assert all(sample.labels == {} for family in families for sample in family.samples)


@pytest.mark.parametrize("said", [b"", b"x" * 100_000, b"\x00\xff\r\n\r\n", b"GET\r\n\r\n"])
async def test_OB_04_nonsense_gets_no_answer_and_ends_nothing(said: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(observe, "TIMEOUT_S", 0.2)
    path = tmp_path / "observe.sock"
    async with observed(path, STATUS) as client:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(said)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert (await client.get("/health")).status_code == 200


async def test_a_file_that_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "observe.sock"
    path.write_text("kept")
    with pytest.raises(HostlerError) as caught:
        await Observer(path, lambda: STATUS).run()
    assert caught.value.code == "invalid_config"
    assert path.read_text() == "kept"
