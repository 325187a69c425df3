"""Rules for every test: the network is this machine, and what CI must have is never skipped."""

import os
import shutil
import socket
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ALL = os.environ.get("HOSTLER_TESTS") == "all"
PACKAGES = Path(__file__).parent / "real" / "packages.txt"

# A generated example proves nothing about time: hypothesis would give it 200 ms, on a loaded machine too.
settings.register_profile("hostler", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hostler")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that dials anywhere else fails at once, with the address in the message."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if host and host not in ("127.0.0.1", "::1", "localhost") and not host.startswith("127."):
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


# Each takes seconds, and there are hundreds: a run takes a part of them, and all with HOSTLER_SLOW=1.
THINNED = {"tests/guards/": 10, "tests/fault/test_K1_killed_at_every_boundary.py": 4}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps every n-th of what is named in `THINNED`, the same ones in every run; what was asked for by name stays."""
    asked = [argument for argument in config.args if "guards" in argument or "test_K1" in argument]
    if os.environ.get("HOSTLER_SLOW") or asked:
        return
    left_out = [item for item in items if any(_is_thinned(item.nodeid, *each) for each in THINNED.items())]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_thinned(node_id: str, place: str, nth: int) -> bool:
    return place in node_id and zlib.crc32(node_id.encode()) % nth != 0


def need(*programs: str) -> None:
    """Skips the calling test when a program is absent; fails instead where nothing may be left out."""
    missing = [name for name in programs if shutil.which(name) is None]
    if not missing:
        return
    line = "apt-get install -y --no-install-recommends " + " ".join(packages())
    message = f"{', '.join(missing)} not installed; as root: {line}"
    if ALL:
        pytest.fail(message)
    pytest.skip(message)


def need_root() -> None:
    """The same for tests that change what only root may."""
    if os.geteuid() == 0:
        return
    if ALL:
        pytest.fail("this test needs root")
    pytest.skip("this test needs root")


def need_slow(why: str, *, there: bool = False) -> None:
    """Skips the calling test unless $HOSTLER_SLOW is set, or what makes it slow is `there` already."""
    if not there and not os.environ.get("HOSTLER_SLOW"):
        pytest.skip(f"{why}; run it with HOSTLER_SLOW=1")


def packages() -> list[str]:
    lines = (line.split("#")[0].strip() for line in PACKAGES.read_text().splitlines())
    return [line for line in lines if line]
