"""The page of one project in a real browser, over a real control plane that cannot be reached for a while."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conftest import need
from support.browser import PROGRAM, tab
from support.plane import PROJECT, operations, plane, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]
MESSAGE = "document.getElementById('message').innerText"
WATCHED = "document.getElementById('message'), {childList: true}"
TITLE = "document.getElementById('title').innerText"
NODES = "document.getElementById('nodes').innerText"


async def test_what_the_page_shows_may_be_old_and_it_says_so_until_it_is_not(tmp_path: Path) -> None:
    need(PROGRAM)
    async with plane(tmp_path) as control, tab(tmp_path) as at:
        await control.enroll("gpu-1")
        await at.go(control.ports.server + "/")
        await at.type("project", PROJECT)
        await at.type("token", control.http.headers["authorization"].partition(" ")[2])
        await at.press("Enter", 13, "\r")
        await at.holds(f"{NODES}.includes('gpu-1')")
        assert await at.value(MESSAGE) == ""
        assert at.wrong == []

        cut = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await at.tell("Network.emulateNetworkConditions", offline=True, **cut)
        await at.holds(f"{MESSAGE}.includes('does not answer')")
        assert "gpu-1" in await at.value(NODES), "what was known stays"
        await control.enroll("gpu-2")
        await at.tell("Network.emulateNetworkConditions", offline=False, **cut)
        await at.holds(f"{NODES}.includes('gpu-2') && {MESSAGE} === ''")


async def test_an_operation_whose_events_were_cut_off_is_taken_up_again(tmp_path: Path) -> None:
    need(PROGRAM)
    async with plane(tmp_path) as control, tab(tmp_path) as at, cable(control.ports.server) as line:
        await control.publish()
        operation_id = await control.submit(await control.enroll("gpu-1"))
        await at.go(line.address + "/")
        await at.type("project", PROJECT)
        await at.type("token", control.http.headers["authorization"].partition(" ")[2])
        await at.press("Enter", 13, "\r")
        await at.holds("document.querySelector('#operations tr.link') !== null")
        await at.value("document.querySelector('#operations tr.link').click()")
        await at.holds(f"{TITLE} !== ''")
        await until(lambda: line.carried(f"{operation_id}/events".encode()))

        note = f"() => window.told = (window.told ?? '') + {MESSAGE}"
        await at.value(f"void new MutationObserver({note}).observe({WATCHED})")
        line.cut()
        await control.call("POST", f"{operations()}/{operation_id}/cancel", 202)
        await at.holds("window.told?.includes('were cut off')")
        await at.holds(f"{TITLE}.endsWith('canceled') && {MESSAGE} === ''")


class Cable:
    """Hands every byte on, until what goes through it is cut; what is dialled after that goes through again."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._writers: list[asyncio.StreamWriter] = []
        self._said = b""
        self.address = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers += [writer, back]
        await asyncio.gather(self._pass(reader, back, heard=True), self._pass(there, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, heard: bool = False) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                self._said += data if heard else b""
                sink.write(data)
        sink.close()

    async def carried(self, what: bytes) -> bool:
        return what in self._said

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def cable(target: str) -> AsyncIterator[Cable]:
    line = Cable(target)
    server = await asyncio.start_server(line.take, "127.0.0.1", 0)
    line.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
        line.cut()
