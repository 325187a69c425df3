"""A real Chromium without a window, driven by its DevTools protocol over one WebSocket."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

PROGRAM = "chromium"
PATIENCE_S = 20.0
_MOST_BYTES = 64 << 20  # a screenshot is one message
# as root there is no sandbox, and it shows only what the test serves; nothing is fetched by the browser for itself
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-port=0",
)


class Tab:
    """One page. `asked` is every address it sent a request to, `wrong` every error of its console and its scripts."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._session = ""
        self.asked: list[str] = []
        self.wrong: list[str] = []

    async def attach(self) -> None:
        target = await self.tell("Target.createTarget", url="about:blank")
        attached = await self.tell("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.tell(f"{domain}.enable")

    async def listen(self) -> None:
        """Until the browser closes."""
        async for message in self._socket:
            said = json.loads(message)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self._heard(said["method"], said["params"])

    def _heard(self, method: str, said: dict[str, Any]) -> None:
        if method in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            self.asked.append(said["request"]["url"] if "request" in said else said["url"])
        elif method == "Runtime.exceptionThrown":
            self.wrong.append(json.dumps(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert", "warning"):
            self.wrong.append(json.dumps(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.wrong.append(json.dumps(said["entry"]))
        elif method == "Page.javascriptDialogOpening":
            self.wrong.append(f"a dialog: {said['message']}")

    async def tell(self, command: str, **parameters: Any) -> Any:
        """The result of a command of the protocol."""
        said = await self._answer(command, parameters)
        assert "error" not in said, said
        return said["result"]

    async def _answer(self, command: str, parameters: dict[str, Any]) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": command, "params": parameters}
        await self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        async with asyncio.timeout(PATIENCE_S):
            return await answer

    async def go(self, url: str) -> None:
        """Opens it; its scripts may still be at work."""
        said = await self.tell("Page.navigate", url=url)
        assert "errorText" not in said, said
        await self.holds("document.readyState === 'complete'")

    async def value(self, script: str) -> Any:
        """Of a JavaScript expression."""
        said = await self._evaluated(script)
        assert "error" not in said, said
        return said["result"]["result"].get("value")

    async def _evaluated(self, script: str) -> Any:
        parameters = {"expression": script, "returnByValue": True, "awaitPromise": True}
        said = await self._answer("Runtime.evaluate", parameters)
        assert "exceptionDetails" not in said.get("result", {}), said
        return said

    async def holds(self, script: str, timeout_s: float = PATIENCE_S) -> None:
        """Waits until an expression is true; fails with what the page shows."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._is_true(script):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            shown = await self.value("document.body.innerText")
            raise AssertionError(f"never true: {script}\n{shown}\n{self.wrong}") from None

    async def _is_true(self, script: str) -> bool:
        """Between two pages there is nothing to ask."""
        said = await self._evaluated(script)
        return "error" not in said and bool(said["result"]["result"].get("value"))

    async def type(self, element: str, text: str) -> None:
        """Into the field of that id, as by hand."""
        await self.value(f"document.getElementById({element!r}).focus()")
        await self.tell("Input.insertText", text=text)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """A key of the keyboard, at what has the focus."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        await self.tell("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        await self.tell("Input.dispatchKeyEvent", type="keyUp", **common)

    async def picture(self, path: Path) -> None:
        """All of the page as it looks now."""
        said = await self.tell("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(said["data"]))


@asynccontextmanager
async def tab(home: Path) -> AsyncIterator[Tab]:
    """A page of a browser of its own, whose profile is below `home`."""
    profile = home / "chromium"
    told = [PROGRAM, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
    nowhere = asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(*told, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        address = await _address(profile / "DevToolsActivePort", running)
        async with connect(address, max_size=_MOST_BYTES, proxy=None) as socket:
            made = Tab(socket)
            hearing = asyncio.create_task(made.listen())
            try:
                await made.attach()
                yield made
            finally:
                hearing.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        await running.wait()


async def _address(file: Path, running: asyncio.subprocess.Process) -> str:
    """It chooses a port itself and writes it down: two lines, the port and the path."""
    async with asyncio.timeout(PATIENCE_S):
        while not file.exists() or len(lines := file.read_text().split()) < 2:
            assert running.returncode is None, f"{PROGRAM} ended with {running.returncode}"
            await asyncio.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
