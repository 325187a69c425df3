# ruff: noqa: E501 - a table: one guard a line
"""Each guard over what nodes say of their agents, and fetch for them, taken out of the source: a test goes red. None is silent."""

import pytest

from support.mutant import Guard, outcome_without

REPORTS, FEED, SAID = (
    "hostler.control.kernel.agent_reports",
    "hostler.control.rpc.agent_feed",
    "hostler.pki.agent_report",
)
KERNEL = "tests/unit/control/kernel"

GUARDS = {
    "EV_09 its own run": (REPORTS, "agent = draft.get(NodeAgentRow, node.node_id)", "agent = draft.get(NodeAgentRow, task.node_id) if task else None", f"{KERNEL}/test_agent_run_rights.py::test_EV_09_a_node_does_not_end_the_run_of_another_by_its_word"),
    "LC_04 an older report": (REPORTS, "if said.at_ms < before.reported_at_ms <= draft.now_ms + SKEW_MS:", "if False:", f"{KERNEL}/test_agent_versions.py"),
    "LC_04 a clock far ahead": (REPORTS, " <= draft.now_ms + SKEW_MS:", ":", f"{KERNEL}/test_agent_versions.py"),
    "S8 short words": (REPORTS, 'f"{each.kind} {each.name}"[:MAX_WORD]', 'f"{each.kind} {each.name}"', f"{KERNEL}/test_agent_versions.py"),
    "S8 their turn": (FEED, "            await asyncio.sleep(min(wait_s, _LONGEST_S))\n", "            pass\n", "tests/unit/control/rpc/test_link.py::test_S8_reports_that_never_end_wait_for_their_turn"),
    "S8 moments": (SAID, "msgspec.Meta(ge=0, le=(1 << 53) - 1)", "msgspec.Meta()", "tests/unit/pki/test_agent_report.py"),
    "P3 what the store cannot hold": ("hostler.control.store.apply", "except (OverflowError, ValueError) as err:", "except ZeroDivisionError as err:", "tests/unit/control/store/test_apply.py"),
    "API_18 slow readers": ("hostler.control.api.packages", "async with asyncio.timeout(self._most_s):", "if self._most_s:", "tests/unit/control/api/test_agent_releases.py::test_API_18_who_reads_nothing_does_not_keep_his_place"),
    "S2 operations of a run": ("hostler.control.kernel.cancel", 'if operation.trigger_source == "agent_lifecycle" and actor.role != "platform_admin":', "if False:", f"{KERNEL}/test_agent_run_rights.py"),
    "S2 nor by recovery": ("hostler.control.kernel.launches", "        check_own_to_move(operation, command.actor)\n", "", f"{KERNEL}/test_agent_run_rights.py"),
    "S2 steps that change an agent": ("hostler.control.kernel.submit", "if changes_agents and command.trigger_source == ASKED and", "if False and", f"{KERNEL}/test_agent_run_rights.py"),
    "AL_08 quarantine stays": ("hostler.control.kernel.agent_succession", "if before.health == QUARANTINED:", "if False:", f"{KERNEL}/test_agent_matrix.py"),
    "AL_08 what was lent": ("hostler.control.kernel.agent_succession", "elif before.reclaim != CLEAN:", "elif False:", f"{KERNEL}/test_agent_matrix.py"),
    "R3 cordons stay": ("hostler.control.kernel.agent_succession", "    for row in cordons:\n        draft.insert(row)\n", "    cordons = []\n", f"{KERNEL}/test_agent_matrix.py"),
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_reports_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.rpartition("\n")[2]
