"""Each guard of code bundles, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL, FILES = "hostler.control.kernel.code_bundles", "hostler.control.bundles.files"
ROUTES, FEED = "hostler.control.api.routes.code_bundles", "hostler.control.rpc.bundle_feed"
TRANSFER, CACHE = "hostler.agent.bundles.transfer", "hostler.agent.bundles.cache"
SHELF, PLACE = "hostler.agent.bundles.shelf", "hostler.agent.bundles.place"
RUNNER, PULLS = "hostler.agent.outside.outside", "hostler.agent.outside.pulls"
RULES, HTTP = "unit/control/kernel/test_code_bundles.py", "unit/control/api/test_code_bundles.py"
NODE, FAULTS = "unit/agent/bundles/test_cache.py", "fault/test_JB_08_bundles.py"
BOUND = f"{RULES}::test_JB_08_and_no_other_bundle_and_no_other_node"
OWN = f"{RULES}::test_AZ_10_a_submit_may_name_only_what_its_own_project_holds"
LIMITS = f"{HTTP}::test_limits_of_one_bundle_of_a_project_and_of_the_disk"
LIES = f"{FAULTS}::test_A1_pieces_that_lie_are_not_spliced"
BOUNDS = f"{FAULTS}::test_A5_limits_of_a_bundle_hold"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:40]}")


GUARDS = [
    guard(
        "hostler.control.api.routes.code_bundles",
        "            if not files.has(key, known.size_bytes):",
        "            if False:",
        "unit/control/api/test_code_bundles.py::test_JB_08_one_that_is_deleted_while_it_is_sent_again_leaves_no_row_without_bytes",
    ),
    guard(KERNEL, '        and node.state == "active"\n', "", BOUND),
    guard(KERNEL, "        and task.node_id == command.node_id\n", "", BOUND),
    guard(KERNEL, "        and task.attempt_uid == command.attempt_uid\n", "", BOUND),
    guard(KERNEL, "        and task.state in IN_FLIGHT\n", "", BOUND),
    guard(KERNEL, "        and not task.cancel_requested\n", "", BOUND),
    guard(KERNEL, "        and not operation.cancel_requested_ms\n", "", BOUND),
    guard(KERNEL, "        and operation.mode == TaskMode.APPLY\n", "", BOUND),
    guard(KERNEL, "        and named_by(operation) == command.sha256\n", "", BOUND),
    guard(KERNEL, ' if operation.operation_type.startswith("job.container.") else ""', "", BOUND),
    guard(KERNEL, " and row.state == HELD else None", " else None", OWN),
    guard(
        KERNEL,
        "    if kept + command.size_bytes > command.quota_bytes:\n",
        "    if False:\n",
        f"{RULES}::test_a_project_keeps_so_many_bytes_and_what_was_deleted_does_not_count",
    ),
    guard(
        KERNEL,
        '    if draft.view.bundle_is_named(row.project_id, row.sha256):\n        raise error("bundle_in_use"',
        '    if False:\n        raise error("bundle_in_use"',
        f"{RULES}::test_what_nobody_used_for_long_goes_and_what_an_open_job_names_stays",
    ),
    guard(
        FILES,
        "            if not same_digest(upload.sha256, key.sha256):\n",
        "            if False:\n",
        f"{HTTP}::test_JB_08_bytes_of_another_digest_are_refused_and_leave_nothing",
    ),
    guard(
        FILES,
        "        if not _SHA256.fullmatch(self.sha256):\n",
        "        if False:\n",
        f"{HTTP}::test_a_name_that_is_none_never_becomes_a_path",
    ),
    guard(
        FILES,
        "        if not (_NAME.fullmatch(self.org_id) and _NAME.fullmatch(self.project_id)):\n",
        "        if False:\n",
        f"{HTTP}::test_a_name_that_is_none_never_becomes_a_path",
    ),
    guard(FILES, "if self.size + len(held) > self._settings.max_bytes:", "if False:", LIMITS),
    guard(FILES, "- len(data) < self._settings.reserve_bytes:", "- len(data) < 0:", LIMITS),
    guard(
        FILES,
        "        if self._uploads[of] >= MOST_AT_ONCE:\n",
        "        if False:\n",
        f"{HTTP}::test_a_project_sends_so_many_at_once_and_silence_is_given_up",
    ),
    guard(
        FILES,
        "        async with asyncio.timeout(IDLE_S):\n",
        "        async with asyncio.timeout(None):\n",
        f"{HTTP}::test_a_project_sends_so_many_at_once_and_silence_is_given_up",
    ),
    guard(
        ROUTES,
        "    permit_own(call.principal, known.created_by)\n",
        "",
        f"{HTTP}::test_AZ_04_a_member_removes_what_it_sent_itself",
    ),
    guard(
        FEED,
        "        await self._identities.check(peer)\n",
        "",
        f"{FAULTS}::test_JB_08_who_may_no_more_gets_no_more[revoke-revoked]",
    ),
    guard(
        FEED,
        "        await self._grant(peer, request)\n",
        "",
        f"{FAULTS}::test_JB_08_who_may_no_more_gets_no_more[cancel-bundle_not_bound]",
    ),
    guard(
        FEED,
        "        if self._open[peer.name] >= MOST_AT_ONCE:\n",
        "        if False:\n",
        f"{FAULTS}::test_a_node_fetches_so_many_at_once",
    ),
    guard(
        TRANSFER,
        "return same_digest(part.sha256, self._sha256)",
        "return part.offset > 0",
        f"{FAULTS}::test_JB_08_an_altered_bundle_is_refused_and_nothing_of_it_is_left",
    ),
    guard(TRANSFER, "if piece.offset != part.offset or not piece.data:", "if not piece.data:", LIES),
    guard(TRANSFER, "if part.offset + len(piece.data) > total:", "if False:", LIES),
    guard(TRANSFER, "if total > self._settings.max_bytes:", "if False:", BOUNDS),
    guard(
        TRANSFER,
        "- len(data) < self._reserve:",
        "- len(data) < 0:",
        f"{NODE}::test_A5_a_transfer_leaves_the_reserve_alone",
    ),
    guard(PLACE, "most_bytes=settings.unpacked_bytes", "most_bytes=1 << 60", BOUNDS),
    guard(PLACE, "most_entries=settings.entries", "most_entries=1 << 60", BOUNDS),
    guard(
        PLACE,
        "whiteouts=False",
        "whiteouts=True",
        f"{FAULTS}::test_A6_a_name_like_a_whiteout_is_a_file_and_takes_nothing_away",
    ),
    guard(
        PLACE,
        "        _seal(root)\n",
        "",
        f"{NODE}::test_JB_08_a_bundle_is_unpacked_readable_by_all_and_writable_by_nobody",
    ),
    guard(
        SHELF,
        'f"{org_id}\\0{project_id}"',
        'f"{project_id}"',
        f"{NODE}::test_AZ_10_another_project_of_this_node_has_to_fetch_it_itself",
    ),
    guard(
        SHELF,
        'f"{org_id}\\0{project_id}"',
        'f"{org_id}"',
        f"{NODE}::test_AZ_10_another_project_of_this_node_has_to_fetch_it_itself",
    ),
    guard(
        SHELF,
        "            if any(held.name != SIZE for held in use.iterdir()):\n",
        "            if False:\n",
        f"{NODE}::test_room_is_made_by_what_was_used_longest_ago_and_never_by_what_is_in_use",
    ),
    guard(
        CACHE,
        "        if not _SHA256.fullmatch(sha256) or not _ATTEMPT.fullmatch(facts.attempt_uid):\n",
        "        if False:\n",
        f"{NODE}::test_what_is_no_digest_or_no_attempt_never_becomes_a_path",
    ),
    guard(
        RUNNER,
        "        if pieces.qsize() < CREDIT:\n",
        "        if True:\n",
        f"{FAULTS}::test_SE_04_a_network_process_that_sends_unasked_loses_the_pull_and_fills_no_memory",
    ),
    guard(
        PULLS,
        "                    await credit.acquire()\n",
        "",
        f"{FAULTS}::test_SE_04_no_more_waits_in_the_runner_than_it_asked_for",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, test)
    assert done.returncode == 1, done.stdout + done.stderr
