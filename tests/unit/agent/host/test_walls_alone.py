"""The walls themselves, without the helper around them: what a child behind them says of itself."""

import os
from pathlib import Path

import pytest

from support.mutant import child_of_a_test

CHILD = """
import os, select, sys
from hostler.agent.host import confine
from hostler.agent.host.confine import Confined, Walls
from hostler.agent.host.seccomp import machine
from hostler.agent.host.watcher import Watcher
inside, user, code, *rest = sys.argv[1:]
confine.settle(frozenset())
walls = Walls((inside,), False, frozenset())
confined = Confined((65534, 65534, []) if user else None, walls)
watcher = Watcher(confined.listener, machine(), walls.writes)
pid = confined.start(lambda: os.posix_spawn("/usr/bin/env", ["env", "-i", sys.executable, "-ISc", code, *rest], {}))
ended, poll = os.pidfd_open(pid), select.poll()
poll.register(ended, select.POLLIN)
poll.register(watcher.fd, select.POLLIN)
while ended not in [fd for fd, _ in poll.poll(20_000)]:
    watcher.step()
os.waitpid(pid, 0)
print(sorted({os.path.basename(path) for path in watcher.undeclared}))
"""


def behind_walls(tmp_path: Path, code: str, *rest: str, user: str = "") -> list[str]:
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "out").mkdir(exist_ok=True)
    done = child_of_a_test(CHILD, str(tmp_path / "in"), user, code, str(tmp_path), *rest)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_SE_04_no_new_privileges_and_a_filter(tmp_path: Path) -> None:
    code = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:'))])"
    assert behind_walls(tmp_path, code)[0] == "['1', '2']"


def test_SE_04_a_denied_call_is_denied(tmp_path: Path) -> None:
    code = "import ctypes; print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000))"
    assert behind_walls(tmp_path, code)[0] == "-1"


def test_SE_04_a_write_outside_is_refused_and_noted_and_one_inside_is_neither(tmp_path: Path) -> None:
    code = """
import sys
for n in ('in', 'out'):
    try: open(sys.argv[1] + '/' + n + '/x' + n, 'w')
    except OSError as e: print(e.errno)
"""
    assert behind_walls(tmp_path, code) == ["13", "['xout']"]
    assert (tmp_path / "in" / "xin").exists()
    assert not (tmp_path / "out" / "xout").exists()


def test_J1_landlock_stands_where_the_watcher_is_deceived(tmp_path: Path) -> None:
    """A path text that changes after the look: tried until the kernel sees another one than the watcher."""
    code = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
good, bad = ((sys.argv[1] + n).encode() for n in ("/in/x", "/out/x"))
text = ctypes.create_string_buffer(len(bad) + 1)
ends = time.monotonic() + 1.2
def swap():
    while time.monotonic() < ends:
        text.value = good
        text.value = bad
threading.Thread(target=swap).start()
while time.monotonic() < ends:
    libc.open(text, 0o101, 0o600)
"""
    behind_walls(tmp_path, code)
    assert list((tmp_path / "out").iterdir()) == []


def test_SE_04_there_is_no_network_that_was_not_declared(tmp_path: Path) -> None:
    code = "import socket\ntry: socket.socket()\nexcept OSError as e: print(e.errno)"
    assert behind_walls(tmp_path, code)[0] == "97"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_SE_04_the_user_is_given_up_for_good(tmp_path: Path) -> None:
    grep = '["env", "-i", "/usr/bin/grep", "-E", "^(Uid|CapEff|CapPrm)", "/proc/self/status"]'
    script = CHILD.replace('["env", "-i", sys.executable, "-ISc", code, *rest]', grep)
    assert grep in script
    words = child_of_a_test(script, str(tmp_path), "x", "").stdout.split()
    assert words[:5] == ["Uid:", "65534", "65534", "65534", "65534"]
    assert set(words[6:9:2]) == {"0" * 16}
