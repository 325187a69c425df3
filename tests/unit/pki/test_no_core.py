"""S1: a process that holds keys leaves no core file and cannot be looked into by its own user."""

import ctypes
import signal
from pathlib import Path

from support.mutant import child_of_a_test

# In the child itself: a preexec_fn would run between fork and exec of a process that may have gRPC's threads.
BIG_CORES = """
import resource
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
"""
CRASH = f"""{BIG_CORES}
import signal
from hostler.pki.no_core import leave_no_core
leave_no_core()
signal.raise_signal(signal.SIGABRT)
"""
LOOK = f"""{BIG_CORES}
import ctypes, resource
from hostler.pki.no_core import leave_no_core
leave_no_core()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE))
"""
GET_DUMPABLE = 3


def test_S1_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    done = child_of_a_test(CRASH, cwd=tmp_path)
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert not list(tmp_path.iterdir())


def test_S1_the_process_is_not_dumpable_and_has_no_room_for_a_core() -> None:
    done = child_of_a_test(LOOK)
    assert done.stdout == "0 (0, 0)\n", done.stderr
    assert ctypes.CDLL(None).prctl(GET_DUMPABLE, 0, 0, 0, 0) == 1  # otherwise this shows nothing
