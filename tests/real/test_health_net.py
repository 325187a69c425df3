"""SK-12: http and tcp checks against servers that listen here, and a port that the kernel lists."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome
from hostler.agent.steps.health_check import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.health import HealthCheck
from support.certs import make_server_certs
from support.ports import next_port
from support.steps import Told, context_of

READY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready"


@asynccontextmanager
async def answering(answer: bytes, *, hold: bool = False, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Sends `answer` to whoever asks; with `hold` the connection stays open afterwards."""
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            if hold:
                await release.wait()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        release.set()
        server.close()
        await server.wait_closed()


async def run(*checks: dict[str, Any], ca_file: str = "", **given: Any) -> Outcome:
    params = convert({"checks": checks, "check_timeout_seconds": 20} | given, HealthCheck)
    return await KIND.apply(context_of(params, Host(fetch=FetchSettings(ca_file=ca_file)), Told()))


async def red(check_timeout_seconds: float = 20, **check: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        await run(check, check_timeout_seconds=check_timeout_seconds)
    assert caught.value.code == "health_red"
    return caught.value.message


@pytest.mark.parametrize(
    "answer",
    [
        READY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + READY,
    ],
)
async def test_SK_12_http_passes_as_soon_as_the_answer_is_whole(answer: bytes) -> None:
    async with answering(answer, hold=True) as port:
        check = {"type": "http", "url": f"http://127.0.0.1:{port}/health?deep=1", "body_contains": "ready"}
        outcome = await run(check)
    assert outcome.outputs["results"][0]["detail"] == "status 200"


async def test_SK_12_http_passes_on_an_answer_that_ends_with_the_connection() -> None:
    async with answering(b"HTTP/1.0 204 None\r\n\r\n") as port:
        await run({"type": "http", "url": f"http://127.0.0.1:{port}", "expected_status": [200, 204]})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status 503, expected 200"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (READY.replace(b"ready", b"sorry"), "lacks the expected text"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
    ],
)
async def test_SK_12_http_fails_and_says_why(answer: bytes, said: str) -> None:
    async with answering(answer) as port:
        assert said in await red(type="http", url=f"http://127.0.0.1:{port}/", body_contains="ready")


async def test_SK_12_http_with_an_endless_body_is_cut_off() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    async with answering(head + b"x" * 2_000_000, hold=True) as port:
        assert "lacks" in await red(type="http", url=f"http://127.0.0.1:{port}/", body_contains="ready")


async def test_SK_12_http_that_never_answers_fails_in_its_own_time() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", hold=True) as port:
        said = await red(type="http", url=f"http://127.0.0.1:{port}/", check_timeout_seconds=0.5)
    assert "no answer in 0.5 s" in said


async def test_SK_12_https_is_verified_always(tmp_path: Path) -> None:
    certs = make_server_certs(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs.certificate, certs.key)
    async with answering(READY, tls=context) as port:
        check = {"type": "http", "url": f"https://localhost:{port}/"}
        await run(check, ca_file=str(certs.ca))
        assert "certificate" in (await red(**check)).lower()


async def test_SK_12_tcp_passes_where_somebody_accepts() -> None:
    async with answering(READY) as port:
        await run({"type": "tcp", "host": "127.0.0.1", "port": port}, {"type": "port", "port": port})


async def test_SK_12_tcp_and_port_fail_where_nobody_does() -> None:
    port = next_port()
    assert "tcp 127.0.0.1" in await red(type="tcp", host="127.0.0.1", port=port)
    assert "nothing listens" in await red(type="port", port=port)


async def test_SK_12_mount_disk_and_process_of_this_machine_pass() -> None:
    outcome = await run(
        {"type": "mount", "path": "/proc", "fs_type": "proc"},
        {"type": "disk", "path": "/", "min_free_percent": 0.01},
        {"type": "process", "executable": Path("/proc/self/comm").read_text().strip()},
    )
    assert [result["type"] for result in outcome.outputs["results"]] == ["mount", "disk", "process"]
