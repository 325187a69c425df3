"""Each guard of agents' versions and runs, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
URLS, RELEASES, RUNS = f"{KERNEL}.package_urls", f"{KERNEL}.agent_releases", f"{KERNEL}.agent_runs"
STEPS, CHECKS, NODES = f"{KERNEL}.agent_run_steps", f"{KERNEL}.agent_checks", f"{KERNEL}.nodes"
VERSIONS, REPORTS = f"{KERNEL}.agent_versions", f"{KERNEL}.agent_reports"
FIRST, BOOTED = "hostler.control.delivery.first_boot", "unit/control/delivery/test_first_boot.py"
PACKAGES, SERVING = "hostler.control.delivery.packages", "hostler.control.api.packages"
FEED, AGENTS = "hostler.control.rpc.agent_feed", "hostler.control.api.routes.agents"
RUN, MATRIX = "unit/control/kernel/test_agent_runs.py", "unit/control/kernel/test_agent_matrix.py"
ENDS, RIGHTS = "unit/control/kernel/test_agent_run_ends.py", "unit/control/kernel/test_agent_run_rights.py"
CHANNELS, HTTP = "unit/control/kernel/test_agent_versions.py", "unit/control/api/test_agent_releases.py"
FLOW, ASKED = "flow/test_agent_lifecycle.py", "unit/control/api/test_agents.py"
ADDRESS = f"{HTTP}::test_LC_12_an_address_ends_and_is_good_for_one_file"
OF_A_RUN = "unit/control/api/test_package_urls.py::test_LC_12_an_address_proves_its_run_its_file_and_its_end"
ENDS_WITH_IT = "unit/control/api/test_package_urls.py::test_LC_12_an_address_ends_with_its_run_and_no_other_does"
UNSIGNED = f"{HTTP}::test_LC_12_nothing_is_kept_that_the_update_keys_did_not_sign"
DOWN = f"{RIGHTS}::test_U3_a_downgrade_without_authority_makes_no_run"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:40]}")


GUARDS = [
    guard(URLS, "    if not hmac.compare_digest(mac, _mac(key, at, run_id, file)):\n", "    if False:\n", ADDRESS),
    guard(URLS, "    if int.from_bytes(at) <= now_ms:\n", "    if False:\n", ADDRESS),
    guard(URLS, "(run_id.encode(), file.encode())", "(run_id.encode(),)", ADDRESS),
    guard(URLS, "(run_id.encode(), file.encode())", "(file.encode(),)", OF_A_RUN),
    guard(SERVING, "        if run is None or run.finished_at_ms:\n", "        if run is None:\n", ENDS_WITH_IT),
    guard(
        RELEASES,
        "    if known is not None and known.sha256 != facts.sha256:\n",
        "    if False:\n",
        f"{CHANNELS}::test_a_published_version_never_changes_its_package",
    ),
    guard(RELEASES, "        may_install(signed, node.agent_version)\n", "        pass\n", DOWN),
    guard(
        RELEASES,
        "slot.version == version and slot.state in _GOOD_SLOTS",
        "slot.version == version",
        f"{RIGHTS}::test_U3_a_slot_that_never_stood_its_trial_is_no_way_back",
    ),
    guard(
        RELEASES,
        "    rows = [row for row in draft.current(draft.view.releases_of(version)) if offered(row)]\n",
        "    rows = list(draft.current(draft.view.releases_of(version)))\n",
        f"{RIGHTS}::test_a_withdrawn_release_is_brought_to_nobody",
    ),
    guard(RUNS, "    if open_run is not None:\n", "    if False:\n", f"{ENDS}::test_one_run_at_a_time_on_a_node"),
    guard(
        RUNS,
        '    if node.state != "active":\n',
        "    if False:\n",
        f"{MATRIX}::test_a_node_that_does_not_exist_or_is_revoked_gets_no_run",
    ),
    guard(
        RUNS,
        "    if run.operation_id:\n",
        "    if False:\n",
        f"{ENDS}::test_a_node_that_changes_itself_is_not_called_off",
    ),
    guard(
        RUNS,
        "    if how.kind != BROKERED and not draft.settings.agents.public_url:\n",
        "    if False:\n",
        f"{MATRIX}::test_without_an_address_for_packages_nothing_is_delivered",
    ),
    guard(
        STEPS,
        "    if run.safety_policy != FORCE and _is_busy(draft, node):\n",
        "    if False:\n",
        f"{RUN}::test_LC_14_a_busy_node_makes_an_idle_run_wait_and_says_why",
    ),
    guard(
        STEPS,
        "    if run.safety_policy != FORCE:\n        run = _hold(draft, run)\n",
        "",
        f"{RUN}::test_LC_14_a_busy_node_makes_an_idle_run_wait_and_says_why",
    ),
    guard(
        STEPS,
        "    elif not missing(run):\n",
        "    else:\n",
        f"{ENDS}::test_LC_21_renewal_that_does_not_work_never_becomes_a_success",
    ),
    guard(
        STEPS,
        "    return been.stages < MOST_STAGES and (",
        "    return bool(",
        f"{RUN}::test_LC_12_an_address_that_ran_out_is_made_anew_and_not_for_ever",
    ),
    guard(
        STEPS,
        "        draft.update(replace(token, expires_at_ms=draft.now_ms))\n",
        "        pass\n",
        f"{MATRIX}::test_LC_07_a_token_is_worth_nothing_after_its_run",
    ),
    guard(
        CHECKS,
        " and row.issued_at_ms >= since for row",
        " for row",
        f"{ENDS}::test_LC_21_a_certificate_from_before_the_change_proves_nothing",
    ),
    guard(
        CHECKS,
        '    proved = [row for row in _certificates(draft, subject_of(run)) if row.state == "proved"]\n',
        "    proved = list(_certificates(draft, subject_of(run)))\n",
        f"{ENDS}::test_LC_21_renewal_that_does_not_work_never_becomes_a_success",
    ),
    guard(
        CHECKS,
        " and node.health != DEGRADED",
        "",
        f"{ENDS}::test_LC_21_a_node_that_is_not_well_is_not_schedulable_again",
    ),
    guard(
        CHECKS,
        "    if run.kind == PROVIDER:\n        return False\n",
        "",
        f"{MATRIX}::test_LC_07_a_reimaged_host_comes_back_as_a_fresh_agent_of_the_same_name",
    ),
    guard(
        FIRST,
        "    if digest.hexdigest() != facts.sha256:\n",
        "    if False:\n",
        f"{BOOTED}::test_LC_12_what_is_not_the_signed_package_leaves_nothing_behind",
    ),
    guard(
        FIRST,
        " and size <= facts.size_bytes:",
        ":",
        f"{BOOTED}::test_LC_12_no_more_is_taken_than_was_signed",
    ),
    guard(
        FIRST,
        "    if IDENTITY.exists() and not begun.exists():\n",
        "    if False:\n",
        f"{BOOTED}::test_LC_07_a_host_that_is_a_node_already_is_left_alone",
    ),
    guard(
        RUNS,
        "    if how.kind == PROVIDER and command.token_expires_at_ms:\n",
        "    if False:\n",
        f"{MATRIX}::test_LC_07_a_run_whose_token_ended_unused_does_not_stay_open",
    ),
    guard(
        NODES,
        "        _end(draft, replaced, KERNEL)",
        "        pass",
        f"{MATRIX}::test_LC_07_a_reimaged_host_comes_back_as_a_fresh_agent_of_the_same_name",
    ),
    guard(
        VERSIONS,
        "    if command.channel not in (STABLE, CANDIDATE):\n",
        "    if False:\n",
        f"{CHANNELS}::test_LC_01_another_channel_is_refused",
    ),
    guard(
        VERSIONS,
        "    if not any(command.channel in agent_releases.offered(row) for row in releases):\n",
        "    if False:\n",
        f"{CHANNELS}::test_LC_01_a_channel_takes_only_what_was_signed_for_it",
    ),
    guard(
        REPORTS,
        " and said.returned.at_ms != before.returned_at_ms:",
        ":",
        f"{ENDS}::test_EV_09_LC_16_a_return_is_told_once_and_by_the_old_version",
    ),
    guard(
        PACKAGES,
        "        verified = verify_releases(parse_metadata(document), keyset, trusted, now_ms)\n",
        "        verified = verify_releases(parse_metadata(document), keyset, {}, now_ms)\n",
        f"{HTTP}::test_LC_12_older_and_expired_metadata_is_refused",
    ),
    guard(
        PACKAGES,
        "            if upload.size != release.size or not same_digest(upload.sha256, release.sha256):\n",
        "            if False:\n",
        f"{HTTP}::test_LC_12_a_package_that_is_not_the_signed_one_is_not_kept",
    ),
    guard(
        PACKAGES,
        "        if self._sending >= self.settings.downloads:\n",
        "        if False:\n",
        f"{HTTP}::test_only_so_many_packages_are_sent_at_one_time",
    ),
    guard(
        SERVING,
        "check(settings.url_key, token, file, self._engine.clock.now_ms())",
        'token.rpartition(".")[0]',
        ADDRESS,
    ),
    guard(
        FEED,
        "            report = open_report(document, self._node_id, PublicKey(known.public_key))\n",
        "            import msgspec\n            from hostler.pki import agent_report, dsse\n"
        "            payload = dsse.from_json(document).payload\n"
        "            report = msgspec.json.decode(payload, type=agent_report.AgentReport)\n",
        f"{FLOW}::test_a_report_that_another_key_signed_is_dropped_and_the_session_goes_on",
    ),
    guard(
        AGENTS,
        "    if how.kind == PROVIDER:\n        _check_addresses(call)\n",
        "",
        f"{ASKED}::test_a_reimage_needs_to_know_where_the_host_finds_us",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, test)
    assert done.returncode == 1, done.stdout + done.stderr
