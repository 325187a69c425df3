"""Two runs of the tests on one machine never choose the same port, also before anybody listens on it."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from support.ports import Blocks, is_free, next_port

TESTS = Path(__file__).parents[2]
ASKS = (
    "import json; from support.ports import *;"
    "print(json.dumps([[next_port() for _ in range(30)], node_ports()]), flush=True); input()"
)
TAKES = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0hostler-test-ports-{}'); input()"


def test_runs_at_the_same_time_have_ports_of_their_own() -> None:
    mine = [next_port() for _ in range(30)]
    environment = dict(os.environ) | {"PYTHONPATH": str(TESTS)}
    pipe = subprocess.PIPE
    told = [sys.executable, "-c", ASKS]
    runs = [subprocess.Popen(told, stdin=pipe, stdout=pipe, text=True, env=environment) for _ in range(3)]
    try:
        said = [eval(run.stdout.readline(), {}) for run in runs if run.stdout]
    finally:
        for run in runs:
            run.communicate("\n")
    given = mine + [port for ports, _ in said for port in ports]
    assert len(given) == len(set(given)) == 120
    assert max(given) < 20_000
    assert len({first for _, (first, _) in said}) == 3


def test_what_another_run_holds_is_passed_over_and_free_again_after_it() -> None:
    first = 1_000_000 + 20 * os.getpid()  # a name alone, and no other run's
    places = range(first, first + 20)
    other = subprocess.Popen([sys.executable, "-c", f"{TAKES.format(first)}"], stdin=subprocess.PIPE)
    try:
        while not _is_there(first):
            assert other.poll() is None
        assert _next_of(places) == first + 10
    finally:
        other.communicate(b"\n")
    assert _next_of(places) == first


def _next_of(places: range) -> int:
    with closing(Blocks(places, 10)) as blocks:
        return blocks.mine()[0]


def _is_there(first: int) -> bool:
    return f"@hostler-test-ports-{first}" in Path("/proc/net/unix").read_text()


def test_a_port_that_something_listens_on_is_not_given_out() -> None:
    with socket.create_server(("127.0.0.1", next_port())) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        assert port not in [next_port() for _ in range(450)], "all of a block, and round again"
    assert is_free(port)
