"""SK-08: a unit is started as its file says now, not as systemd read it before the file was written."""

from pathlib import Path

import pytest

from hostler.agent.host.host import Host
from support.fake_systemd import FakeSystemd

UNIT = "model-server.service"


@pytest.mark.parametrize(("action", "outdated", "reloads"), [
    ("restart", True, 1), ("start", True, 1), ("restart", False, 0), ("stop", True, 0),
])  # fmt: skip
async def test_SK_08_a_file_that_has_changed_is_read_before_its_unit_starts(
    tmp_path: Path, action: str, outdated: bool, reloads: int
) -> None:
    host = Host(root=tmp_path)
    with FakeSystemd(tmp_path) as systemd:
        systemd.outdated = {UNIT} if outdated else {"other.service"}
        assert await host.systemd.run_job(UNIT, action) == "done"
        assert systemd.told[("Reload", "")] == reloads
    await host.close()
