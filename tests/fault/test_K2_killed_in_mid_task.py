"""K1, K2: SIGKILL at each boundary of a real step kind, a real journal, a real process: it converges."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent.runner import faults
from hostler.pki.keys import FileSigner
from hostler.wire.report import StepStatus, TaskStatus
from support.agent import core
from support.keys import Keys

NAMES = ("root", "dispatch", "catalog", "artifact", "node")

CHILD = """
import asyncio, sys
from pathlib import Path
from support.agent import core
from test_K2_killed_in_mid_task import read_keys
from hostler.agent.runner import faults

async def main(folder, point):
    async with core(folder, read_keys(folder)) as node:
        faults.arm([point], enabled=True)
        await node.run_task(task_id="tsk_k2")

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def write_keys(folder: Path) -> Keys:
    keys = Keys()
    for name in NAMES:
        (folder / f"{name}.pem").write_bytes(getattr(keys, name).to_pem())
    return keys


def read_keys(folder: Path) -> Keys:
    return Keys(**{name: FileSigner.from_pem((folder / f"{name}.pem").read_bytes()) for name in NAMES})


def killed(folder: Path, point: str) -> int:
    here = Path(__file__).parent
    environment = dict(os.environ) | {"PYTHONPATH": f"{here}:{here.parent}"}
    command = [sys.executable, "-c", CHILD, str(folder), point]
    return subprocess.run(command, env=environment, check=False, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("boundary", faults.BOUNDARIES)
async def test_K2_killed_in_a_boundary_of_file_render_the_task_converges(tmp_path: Path, boundary: str) -> None:
    keys = write_keys(tmp_path)
    assert killed(tmp_path, f"{boundary}:kill:file.render") == -signal.SIGKILL
    async with core(tmp_path, keys) as node:
        left = node.files()
        open_tasks = await node.journal.open_tasks()
        assert len(open_tasks) == (0 if boundary == "after_report" else 1)
        for stored in open_tasks:
            await node.runner.resume(stored, node.catalog, node.cancelled)
        assert node.files() == ["srv/app/config"]
        assert (node.root / "srv/app/config").read_text() == "hello\n"
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]
        (end,) = [step for step in await node.step_reports() if step.status is StepStatus.SUCCEEDED]
        assert end.recovered == (boundary in ("after_effect", "after_receipt"))
        assert bool(left) == (boundary in ("after_effect", "after_receipt", "after_report"))
        assert node.chain().ok
        assert node.chain().length == 1
        assert node.journal.known("tsk_k2") is not None
