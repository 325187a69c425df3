"""A desk for `hostler rollouts` and its like: commands typed against a served API on a real store (`rolling`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import uvicorn
from click.testing import CliRunner

from hostler.cli.main import main
from support.ports import next_port
from support.rolling import Rolling, rolling


class Typed(NamedTuple):
    code: int
    out: str
    err: str


class Desk:
    """What an administrator types."""

    def __init__(self, at: Rolling, port: int, token: Path) -> None:
        self.at, self._port, self._token = at, port, token

    def begin(self, *words: str) -> asyncio.Task[Typed]:
        """One at a time: the runner takes the standard streams of the process."""
        told = ["--server", f"http://127.0.0.1:{self._port}", "--token-file", str(self._token), "rollouts", *words]
        environment = {"HOSTLER_CONFIG": None, "COLUMNS": "200"}

        def typed() -> Typed:
            done = CliRunner().invoke(main, told, env=environment)
            return Typed(done.exit_code, done.stdout, done.stderr)

        return asyncio.create_task(asyncio.to_thread(typed))

    async def types(self, *words: str) -> Typed:
        return await self.begin(*words)

    async def ok(self, *words: str) -> str:
        code, out, err = await self.types(*words)
        assert code == 0, (out, err)
        return out


@asynccontextmanager
async def desk(folder: Path, *regions: str) -> AsyncIterator[Desk]:
    async with rolling(folder, *regions) as at:
        port = next_port()
        # each answer ends its connection: a command line that runs in this process leaves none open
        closing = [("connection", "close")]
        config = uvicorn.Config(at.api.app, port=port, log_level="error", lifespan="off", headers=closing)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(at.admin.headers["authorization"].removeprefix("Bearer "))
        try:
            yield Desk(at, port, token)
        finally:
            server.should_exit = True
            await serving
