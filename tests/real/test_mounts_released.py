"""PF-09: a file system that is used is not unmounted lazily; its holder is named. In a name space of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import need, need_root
from support.mutant import child_of_a_test

pytestmark = pytest.mark.real

CODE = """
import subprocess, sys
from pathlib import Path
from hostler.agent.host.files import Files
from hostler.agent.host.tenant_trees import TenantTrees
from hostler.base.errors import HostlerError
point = sys.argv[1]
assert Path("/proc/self/ns/mnt").readlink() != Path(f"/proc/{sys.argv[2]}/ns/mnt").readlink()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", point], check=True)
inner = Path(point, "inner")
inner.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(inner)], check=True)
trees = TenantTrees(Path("/"), Files(Path("/")))
print(trees.mounts_below(point))
holder = subprocess.Popen(["sleep", "60"], cwd=inner)
try:
    trees.unmount(str(inner))
except HostlerError as err:
    print(err.code, err.message, holder.pid)
try:
    trees.remove(point)
except HostlerError as err:
    print(err.code)
holder.kill()
holder.wait()
for mount in trees.mounts_below(point):
    trees.unmount(mount)
print(trees.mounts_below(point), trees.remove(point))
"""


def test_PF_09_a_busy_mount_is_refused_with_its_holder_and_goes_once_it_is_free(tmp_path: Path) -> None:
    need("unshare", "mount")
    need_root()
    point = tmp_path / "scratch"
    point.mkdir()

    enter = "import os,ctypes; assert ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0\n"
    private = "import subprocess; subprocess.run(['mount', '--make-rprivate', '/'], check=True)\n"
    done = child_of_a_test(enter + private + CODE, str(point), str(os.getpid()))
    assert done.returncode == 0, done.stderr
    mounts, busy, removal, after = done.stdout.splitlines()
    assert mounts == str([f"{point}/inner", str(point)])
    pid = busy.split()[-1]
    assert busy.startswith("busy ")
    assert f"'sleep' (process {pid})" in busy
    assert removal == "busy"
    assert after == "[] True"
    table = subprocess.run(["cat", "/proc/self/mountinfo"], capture_output=True, text=True, check=True).stdout
    assert str(point) not in table
