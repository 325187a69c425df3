"""K7: `file.render` against a power cut. Every state a disk may be in at any moment holds the old file or the new one.

The real step runs under strace. From its own system calls follows what may be lost: data until it is synced, and a
name until its directory is. Each moment, with everything lost that may be, is played through.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from conftest import need

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

STEP = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import support.mutant
from hostler.agent.host.host import Host
from hostler.agent.steps.file_render import KIND
from hostler.catalog.params.file import Render
from support.steps import Told, context_of

params = Render(path="/etc/app.conf", template="new " * 5000, mode="0640")
asyncio.run(KIND.apply(context_of(params, Host(root=Path(sys.argv[1])), Told())))
"""
OLD, NEW = "old", "new"
CALL = re.compile(r"^\d+ +(\w+)\((.*)\)\s+= (-?\d+)")
OPENED = re.compile(r'"([^"]+)", [^"]*O_CREAT')
NAMED = re.compile(r'"([^"]+)"')
DESCRIPTOR = re.compile(r"^(\d+)<([^>]*)>")


@dataclass(frozen=True)
class Disk:
    """What was done to one directory, and how much of it is certain.

    Attributes:
        written, synced: bytes of each file by its first name.
        names: what the directory says; `certain` is what it says whatever happens.
    """

    written: dict[str, int] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    certain: dict[str, str] = field(default_factory=dict)

    def possible(self, target: str) -> set[tuple[str, bool]]:
        """(file, whole) pairs that a power cut may leave under `target`."""
        files = {self.names[target], self.certain[target]}
        return {(name, self.synced.get(name, 0) == self.written.get(name, 0)) for name in files}


def calls(tmp_path: Path) -> list[tuple[str, str]]:
    """(call, arguments) of what the step did to its directory, in order."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/app.conf").write_text("old")
    trace = tmp_path / "trace"
    watched = "trace=openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,ftruncate,truncate"
    command = ["strace", "-f", "-y", "-s", "100", "-e", watched, "-o", str(trace)]
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [*command, sys.executable, "-c", STEP, str(root), tests], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (root / "etc/app.conf").read_text() == "new " * 5000
    found = [match for match in map(CALL.match, trace.read_text().splitlines()) if match and int(match[3]) >= 0]
    here = str(root / "etc")
    return [(match[1], match[2]) for match in found if here in match[2]]


def after(disk: Disk, call: str, arguments: str) -> Disk:
    """The disk after one more system call."""
    held = DESCRIPTOR.match(arguments)
    path = held[2].rpartition("/")[2] if held else ""
    if call == "openat" and (made := OPENED.search(arguments)):
        name = made[1]
        return replace(
            disk, written=disk.written | {name: 0}, synced=disk.synced | {name: 0}, names=disk.names | {name: name}
        )
    if call in ("write", "pwrite64"):
        return replace(disk, written=disk.written | {path: disk.written[path] + 1})
    if call in ("fsync", "fdatasync") and path in disk.written:
        return replace(disk, synced=disk.synced | {path: disk.written[path]})
    if call in ("fsync", "fdatasync") and path == "etc":
        return replace(disk, certain=dict(disk.names))
    if call.startswith("rename"):
        source, target = NAMED.findall(arguments)
        return replace(
            disk, names={name: file for name, file in disk.names.items() if name != source} | {target: source}
        )
    return disk


def test_K7_file_render_survives_a_power_cut_at_any_moment_with_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    need("strace")
    start = Disk(
        written={"app.conf": 1},
        synced={"app.conf": 1},
        names={"app.conf": "app.conf"},
        certain={"app.conf": "app.conf"},
    )
    disk, moments = start, []
    for call, arguments in calls(tmp_path):
        disk = after(disk, call, arguments)
        moments.append(disk.possible("app.conf"))
    assert all(whole for moment in moments for _, whole in moment), "a file under the name may be cut short"
    assert moments[0] == {("app.conf", True)}
    (last,) = moments[-1]
    assert last[0].startswith(".hostler-"), "once the step has ended, the new file is certain"
    assert disk.written[last[0]] > 0
