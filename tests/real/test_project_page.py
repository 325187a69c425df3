"""The page of one project in a real browser, over a real control plane that cannot be reached for a while."""

from pathlib import Path

import pytest

from conftest import need
from support.browser import PROGRAM, tab
from support.plane import PROJECT, plane

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]
MESSAGE = "document.getElementById('message').innerText"
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
