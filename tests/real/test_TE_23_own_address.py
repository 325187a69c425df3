"""TE-23: a node knows its own address by its default route, and a network namespace, as a Pod has, by its own."""

import subprocess
import sys

import pytest

from conftest import need, need_root

pytestmark = pytest.mark.real
ASK = "from hostler.agent.workloads import own_address; print(own_address())"
LINK = ("link add out type veth peer name in", "link set out up", "link set in up")
CASES = {
    "no network": ((), ""),
    "a pod": (("addr add 10.1.2.3/24 dev out", "route add default via 10.1.2.1"), "10.1.2.3"),
    "the default route of two links": (
        (
            "link add other type veth peer name end", "link set other up", "link set end up",
            "addr add 10.9.9.9/24 dev other", "addr add 10.1.2.3/24 dev out", "route add default via 10.1.2.1",
        ),
        "10.1.2.3",
    ),
    "IPv6 alone": (("addr add fd00::7/64 dev out nodad", "route add default via fd00::1"), "fd00::7"),
    "no default route": (("addr add 10.1.2.3/24 dev out",), ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_TE_23_a_node_is_reached_under_the_address_of_its_default_route(case: str) -> None:
    need("ip", "unshare")
    need_root()
    commands, expected = CASES[case]
    steps = "\n".join(f"run(['ip', *{line!r}.split()], check=True)" for line in (*LINK, *commands) if commands)
    program = f"from subprocess import run\n{steps}\n{ASK}"
    done = subprocess.run(["unshare", "-n", sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr
