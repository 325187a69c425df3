"""`hostler jobs` against a served control plane, whose node answers as it is told (API-26, JB-02, JB-08, S2)."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

import pytest

from hostler.wire.node import Reports
from support.jobs import IMAGE, can, job_definitions
from support.plane import ORG, PROJECT, Plane, plane

pytestmark = pytest.mark.timeout(90)
PROGRAM = (sys.executable, "-c", "from hostler.cli.main import main; main()")


async def hostler(control: Plane, token: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    told = ("--server", control.ports.server, "--project", PROJECT, "--token-file", str(token), "jobs", *words)
    running = await asyncio.create_subprocess_exec(
        *PROGRAM, *told, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await running.communicate()
    assert running.returncode is not None
    return running.returncode, out.decode(), err.decode()


async def token_of(control: Plane, folder: Path) -> Path:
    client = await control.principal("ann", "project_member", ORG, PROJECT)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(client.headers["authorization"].removeprefix("Bearer "))
    await client.aclose()
    return token


async def test_API_26_a_job_from_the_command_line_to_its_end(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish(*job_definitions())
        node = await control.enroll("gpu-1")
        token = await token_of(control, tmp_path)
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "main.py").write_text("print(1)\n")
        async with node.session(capabilities=can()) as session:
            words = (
                "run",
                "-n",
                "hi",
                "--image",
                IMAGE,
                "-w",
                str(tmp_path / "src"),
                "--memory",
                "1GiB",
                "python",
                "/app/main.py",
            )
            running = asyncio.create_task(hostler(control, token, *words))
            (task,) = await session.take()
            inputs = json.loads(task.inputs_json)
            (held,) = control.rows("SELECT sha256 FROM bundles")
            assert (inputs["bundle"], inputs["command"]) == (held[0], ["python", "/app/main.py"])
            shown, listed = await asyncio.gather(
                hostler(control, token, "show", "/ann/hi"), hostler(control, token, "list")
            )
            assert "python /app/main.py" in shown[1], shown
            assert "/ann/hi" in listed[1], listed
            await session.say(Reports(tuple(node.finished(task))))
            ended, _, err = await running
            assert (ended, "/ann/hi succeeded" in err) == (0, True), err
            for words in (("tasks", "/ann/hi"), ("wait", "/ann/hi"), ("logs", "/ann/hi"), ("list", "--all")):
                code, out, err = await hostler(control, token, *words)
                assert code == 0, (words, out, err)


async def test_a_failed_task_is_the_exit_code_and_what_waits_is_explained(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish(*job_definitions())
        node = await control.enroll("gpu-1")
        token = await token_of(control, tmp_path)
        async with node.session(capabilities=can()) as session:
            running = asyncio.create_task(hostler(control, token, "run", "-n", "bad", "--image", IMAGE, "--", "false"))
            (task,) = await session.take()
            await session.say(Reports(tuple(node.finished(task, failed="exit_status"))))
            code, _, err = await running
            assert code == 1, err
            assert "/ann/bad failed" in err
            code, out, _ = await hostler(control, token, "run", "-d", "-n", "big", "--gpu", "8:h100", "true")
            assert code == 0
            code, said, err = await hostler(control, token, "explain", "/ann/big")
            assert (code, "gpu-1" in said) == (0, True), (said, err)
            assert (await hostler(control, token, "cancel", out.strip()))[0] == 0
            assert (await hostler(control, token, "wait", "/ann/big"))[0] == 1


async def test_JB_08_AZ_10_a_submit_that_names_a_bundle_of_nobody_or_of_another_project_is_refused(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path) as control:
        await control.publish(*job_definitions())
        await control.enroll("gpu-1")
        await control.enroll("gpu-2", org="rival", project="lab")
        sha256 = hashlib.sha256(b"theirs").hexdigest()
        await control.call("PUT", f"/api/v1/projects/lab/bundles/{sha256}", 201, content=b"theirs")
        token = await token_of(control, tmp_path)
        for name in (sha256, "0" * 64):
            exit_code, _, err = await hostler(control, token, "run", "--bundle", name, "true")
            assert (exit_code, "[bundle_missing]" in err) == (1, True), err
        assert control.rows("SELECT count(*) FROM operations") == [(0,)]
