"""Each guard of relays and of task logs, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

JOINED, EDGE = "hostler.control.rpc.relays", "hostler.control.api.relay"
ROUTE, NODES = "hostler.control.api.routes.exec", "hostler.control.rpc.node_service"
SESSION, FIND = "hostler.agent.containers.session", "hostler.agent.containers.find"
TRANSCRIPT, OUTSIDE = "hostler.agent.containers.transcript", "hostler.agent.outside.outside"
SPOOL, WORKLOG = "hostler.agent.journal.spool", "hostler.agent.runner.worklog"
KEPT, INGEST, OUTPUT = "hostler.control.kernel.task_logs", "hostler.control.rpc.ingest", "hostler.cli.output"
CODEC = "hostler.wire.codec_relay"
RELAYS, SOCKET = "unit/control/rpc/test_relays.py", "flow/test_relay_socket.py"
SESSIONS, LOGS = "unit/agent/containers/test_session.py", "unit/agent/runner/test_worklog.py"
QUOTAS, PACES = "unit/control/kernel/test_task_logs.py", "unit/control/rpc/test_ingest.py"
FRAMES = "unit/agent/containers/test_relay_frames.py"
ATTACH = f"{SOCKET}::test_S2_only_who_asked_may_attach_and_nobody_learns_more"
ENTER = f"{SOCKET}::test_AZ_04_whose_tasks_one_may_enter"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:30]}")


GUARDS = [
    guard(
        JOINED,
        " or (isinstance(frame, RelayData) and frame.stream not in _UP):",
        ":",
        f"{RELAYS}::test_X1_a_node_says_only_what_a_node_may_say",
    ),
    guard(
        JOINED,
        "isinstance(frame, RelayOpen | RelayResize) or ",
        "",
        f"{RELAYS}::test_X1_a_node_says_only_what_a_node_may_say",
    ),
    guard(
        KEPT,
        "line.stream if line.stream in _OF_NODES else AGENT",
        "line.stream",
        f"{QUOTAS}::test_OB_07_no_node_speaks_for_the_control_plane",
    ),
    *(
        guard(JOINED, text, without, f"{RELAYS}::test_X1_a_flood_of_what_costs_no_grant_is_kept_nowhere")
        for text, without in (
            (" and frame.data:  # what is empty", ":  # what is empty"),
            (" and not self._is_output_over:", ":"),
            ("        if not self._is_input_over:", "        if True:"),
        )
    ),
    guard(
        SESSION,
        " and not self._is_input_over:",
        ":",
        f"{SESSIONS}::test_X1_a_flood_of_ends_of_the_input_is_kept_nowhere",
    ),
    guard(
        "hostler.control.api.routes.operations",
        "    if body.operation_type in INSIDE_TASKS:",
        "    if False:",
        f"{SOCKET}::test_AZ_04_a_member_enters_no_task_by_an_operation_of_its_own_making",
    ),
    guard(
        JOINED,
        "if relay is None or relay.node_id != node_id:",
        "if relay is None:",
        f"{RELAYS}::test_OD_08_another_node_does_not_find_it",
    ),
    guard(
        JOINED,
        " or relay.project_id != project_id",
        "",
        f"{RELAYS}::test_S2_another_project_or_principal_does_not_find_it",
    ),
    guard(JOINED, " or relay.owner != owner:", ":", ATTACH),
    guard(JOINED, "        if end in self._attached:", "        if False:", ATTACH),
    guard(
        JOINED,
        "        if not relay.whole:\n",
        "        if False:\n",
        f"{RELAYS}::test_X1_one_that_nobody_uses_is_gone",
    ),
    guard(
        JOINED,
        "if own >= MOST_OF_ONE or len(self._relays) >= MOST:",
        "if False:",
        f"{RELAYS}::test_one_principal_has_so_many_and_no_more",
    ),
    guard(
        JOINED,
        "            if self._up_bytes > WINDOW:",
        "            if False:",
        f"{RELAYS}::test_X1_a_node_sends_no_more_than_it_was_granted",
    ),
    guard(
        JOINED,
        "        if self._credit < 0:",
        "        if False:",
        f"{RELAYS}::test_X1_a_client_sends_no_more_than_it_was_granted",
    ),
    guard(
        JOINED,
        "            async with asyncio.timeout(SILENT_S):",
        "            async with asyncio.timeout(None):",
        f"{RELAYS}::test_X1_a_node_that_falls_silent_or_leaves_ends_it",
    ),
    guard(EDGE, '        permit(caller, "jobs.exec")\n', "", ATTACH),
    guard(
        EDGE,
        "            permit_project(caller, await parts.projects.org_of(project_id), project_id)",
        "            pass",
        f"{SOCKET}::test_S2_a_principal_that_lost_the_project_cannot_attach",
    ),
    guard(
        EDGE,
        "            if await self._unwelcome():",
        "            if False:",
        f"{SOCKET}::test_X1_a_revoked_principal_and_a_revoked_node_lose_their_sessions",
    ),
    guard(
        EDGE,
        "            if loop.time() - self._heard_at > SILENT_S:",
        "            if False:",
        f"{SOCKET}::test_X1_a_client_that_says_nothing_is_gone",
    ),
    guard(
        EDGE,
        "            if loop.time() - self._moved_at > idle_s:",
        "            if False:",
        f"{SOCKET}::test_a_session_in_which_nothing_moves_ends",
    ),
    guard(
        EDGE,
        "        if not data or data[0] != STDIN:",
        "        if not data:",
        f"{SOCKET}::test_X1_a_client_that_breaks_the_rules_is_cut",
    ),
    guard(
        ROUTE,
        "    if call.principal.role == MEMBER and call.principal.name != found.requested_by_user_id:",
        "    if False:",
        ENTER,
    ),
    guard(ROUTE, "project_id, job_id = await call.project(),", 'project_id, job_id = call.path("project_id"),', ENTER),
    guard(
        NODES,
        "            if not isinstance(first, RelayOpen):",
        "            if first is None:",
        f"{SOCKET}::test_X1_a_stream_that_does_not_begin_with_a_name_is_ended",
    ),
    guard(
        FIND,
        ", spec.ORG: org_id, spec.PROJECT: project_id}",
        ', spec.ORG: "acme", spec.PROJECT: "train"}',
        f"{SESSIONS}::test_S2_a_container_of_another_tenant_is_not_found",
    ),
    guard(
        SESSION,
        "            if self._granted < 0:",
        "            if False:",
        f"{SESSIONS}::test_X1_input_beyond_the_window_ends_the_session",
    ),
    guard(
        SESSION,
        "                async with asyncio.timeout(SILENT_S):",
        "                async with asyncio.timeout(None):",
        f"{SESSIONS}::test_X1_a_silent_control_plane_ends_the_program",
    ),
    guard(
        SESSION,
        "            await asyncio.shield(terminal.close())",
        "            pass",
        f"{SESSIONS}::test_X1_a_relay_that_breaks_ends_the_program",
    ),
    guard(
        SESSION,
        "count = min(len(view), CHUNK, await self._some_credit())",
        "count = min(len(view), CHUNK)",
        f"{SESSIONS}::test_X1_nothing_is_read_that_nobody_has_room_for",
    ),
    guard(
        SESSION,
        "            async with asyncio.timeout(CLIENT_S):",
        "            async with asyncio.timeout(None):",
        f"{SESSIONS}::test_X1_nothing_starts_before_somebody_is_there",
    ),
    guard(
        TRANSCRIPT,
        ".translate(_ACTIVE)",
        "",
        f"{SESSIONS}::test_X1_a_transcript_holds_nothing_that_a_terminal_acts_on",
    ),
    guard(
        OUTSIDE,
        " and self._bytes <= WINDOW",
        "",
        f"{FRAMES}::test_X1_a_relay_that_is_sent_more_than_a_window_is_cut",
    ),
    guard(
        OUTSIDE,
        "        if len(self._relays) >= _MOST_RELAYS:",
        "        if False:",
        f"{FRAMES}::test_a_node_has_so_many_relays_and_no_more",
    ),
    guard(
        CODEC,
        "if isinstance(frame, relay.RelayData) and len(frame.data) > CHUNK:",
        "if False:",
        f"{FRAMES}::test_a_frame_longer_than_a_frame_may_be_is_refused",
    ),
    guard(
        SPOOL,
        "            self.waiting_bytes >= limits.node_waiting_bytes\n",
        "            False\n",
        f"{LOGS}::test_OB_07_nobody_reads_while_nothing_is_taken",
    ),
    guard(
        SPOOL,
        "            or self._of_task.get(task_id, 0) >= limits.task_waiting_bytes\n",
        "",
        f"{LOGS}::test_OB_07_nobody_reads_while_nothing_is_taken",
    ),
    guard(
        WORKLOG,
        'text = self._redact(line.text).encode("utf-8", "replace").decode()',
        'text = line.text.encode("utf-8", "replace").decode()',
        f"{LOGS}::test_SE_10_secrets_are_redacted_before_a_line_is_cut",
    ),
    guard(
        WORKLOG,
        'if stored.get("attempt") == self._task.attempt_uid else ""',
        'if stored else ""',
        f"{LOGS}::test_OB_07_a_restart_goes_on_behind_what_was_shipped",
    ),
    guard(
        KEPT,
        "    if usage.cost >= draft.settings.log_operation_bytes:",
        "    if False:",
        f"{QUOTAS}::test_OB_07_lines_beyond_the_quota_are_counted_and_said_once",
    ),
    guard(INGEST, "        if wait_s:\n", "        if False:\n", f"{PACES}::test_N1_a_batch_above_the_rate_waits"),
    guard(
        INGEST,
        "        if self._own.level > _FREE:",
        "        if True:",
        f"{PACES}::test_N1_who_says_little_does_not_wait_for_those_who_flood",
    ),
    guard(
        OUTPUT,
        "    return text.translate(_ACTIVE)",
        "    return text",
        "unit/cli/test_commands.py::test_X1_what_a_task_wrote_does_not_act_on_the_readers_terminal",
    ),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("removed", "test"), GUARDS)
def test_without_the_guard_its_test_is_red(removed: Guard, test: str) -> None:
    done = outcome_without(removed, test)
    assert done.returncode == 1, f"nobody noticed: {removed.text}\n{done.stdout[-2000:]}{done.stderr[-500:]}"
