"""LC-04: what differs is said in words, also where nothing should be there."""

from typing import Any

import pytest

from hostler.cli import agents_show


def test_a_file_that_should_not_be_there_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    override = {"kind": "unit", "name": "/etc/systemd/system/hostler-agent.service", "expected": "", "found": "ab12"}
    agent: dict[str, Any] = dict.fromkeys(agents_show._SHOWN, "") | {"last_probe_at_ms": 0, "next_probe_at_ms": 0}
    report = {"evidence": [override], "slots": []}
    found = {"name": "gpu-1", "node_id": "nod_1", "agent": agent, "report": report, "latest_run": None}
    agents_show.print_lifecycle(found)
    assert "hostler-agent.service: ab12, not nothing\n" in capsys.readouterr().out
