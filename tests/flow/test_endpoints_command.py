"""`hostler endpoints list` against a control plane (API-27)."""

import asyncio
import json
import subprocess
from pathlib import Path

from flow.test_task_calls import house

from hostler.cli.demo_files import program


async def test_API_27_endpoints_are_listed_by_the_command_line(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        await here.registers(one, lease_ms=600_000)
        token = tmp_path / "token"
        token.write_text(here.control.http.headers["authorization"].removeprefix("Bearer "))
        token.chmod(0o600)
        common = ["--server", here.control.ports.server, "--token-file", str(token), "--project", "train"]

        def run(*words: str) -> str:
            command = [program("hostler"), *common, "endpoints", "list", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            return done.stdout

        shown = await asyncio.to_thread(run)
        assert "/ann/one" in shown
        assert "10.0.0.7:30001" in shown
        assert "gpu-1" in shown
        assert " min" in shown
        (item,) = json.loads(await asyncio.to_thread(run, "--name", "actor", "--output", "json"))
        assert item["name"] == "actor"
        assert json.loads(await asyncio.to_thread(run, "--namespace", "/ann/on", "--output", "json")) == []
