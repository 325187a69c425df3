"""Every guard of a transfer is taken out once, and the tests that prove it must go red (A1-A5, AR-04..07)."""

import pytest

from support.mutant import Guard, outcome_without

RANGES = "hostler.agent.fetch.ranges"
STREAM = "hostler.agent.fetch.stream"
BLOB = "hostler.agent.fetch.blob"
CONNECTION = "hostler.agent.fetch.connection"
PARTIAL = "hostler.agent.fetch.partial"
STEP = "hostler.agent.steps.artifact_access"

UNIT = "tests/unit/agent/fetch"
RESUME = "tests/real/test_pull_resume.py"
LIMITS = "tests/real/test_pull_limits.py"
HEALTH = "tests/unit/agent/steps/test_health_check.py"

GUARDS: dict[str, tuple[Guard, str]] = {
    "A2_start_of_the_range": (Guard(RANGES, "start == held.offset", "True"), f"{UNIT}/test_ranges.py"),
    "A2_end_of_the_range": (Guard(RANGES, "last == total - 1", "True"), f"{UNIT}/test_ranges.py"),
    "A2_total_of_the_range": (Guard(RANGES, "held.total in (0, total)", "True"), f"{UNIT}/test_ranges.py"),
    "A2_length_of_the_part": (
        Guard(RANGES, "length in (-1, last - start + 1)", "True"),
        f"{UNIT}/test_ranges.py",
    ),
    "A2_several_ranges": (Guard(RANGES, '.startswith("multipart/")', ".startswith(())"), f"{UNIT}/test_ranges.py"),
    "A2_unasked_part": (Guard(RANGES, "if held.offset == 0:", "if False:"), f"{UNIT}/test_ranges.py"),
    "A2_encoded_body": (Guard(RANGES, 'encoding not in ("", "identity")', "False"), f"{UNIT}/test_ranges.py"),
    "A1_version": (
        Guard(RANGES, "if not held.validator.same_as(answer.validator()):", "if False:"),
        f"{UNIT}/test_ranges.py",
    ),
    "A1_conditional_range": (
        Guard(CONNECTION, 'headers["If-Range"] = held.validator.if_range()', "pass"),
        f"{RESUME}::test_A1_an_object_that_changed_is_fetched_anew",
    ),
    "A1_no_validator": (
        Guard(BLOB, "held.offset and not held.validator.if_range()", "False"),
        f"{RESUME}::test_without_a_validator_nothing_is_continued",
    ),
    "A2_restart_drops_what_is_held": (
        Guard(BLOB, "if accept.start == 0:", "if False:"),
        f"{RESUME}::test_A2_a_hostile_answer_to_a_range_never_splices",
    ),
    "A3_digest": (
        Guard(BLOB, "if not same_digest(found, self.wanted.sha256):", "if False:"),
        f"{RESUME}::test_A3_right_size_wrong_bytes_is_refused_and_not_reused",
    ),
    "A3_bad_file_is_removed": (
        Guard(BLOB, "            file.discard()", "            pass"),
        f"{RESUME}::test_A3_right_size_wrong_bytes_is_refused_and_not_reused",
    ),
    "A3_local_part_is_proved": (
        Guard(PARTIAL, "if not read or held.hexdigest() != mark.sha256:", "if not read:"),
        f"{UNIT}/test_partial.py",
    ),
    "K7_sync_before_a_mark": (
        Guard(STREAM, "os.fdatasync(self._grown.descriptor)", "pass"),
        f"{UNIT}/test_stream.py",
    ),
    "K7_sync_before_the_name": (Guard(PARTIAL, "os.fsync(self.descriptor)", "pass"), f"{UNIT}/test_partial.py"),
    "K7_unsynced_end_is_cut_off": (
        Guard(PARTIAL, "os.ftruncate(self.descriptor, grown.offset)", "pass"),
        f"{UNIT}/test_partial.py",
    ),
    "links_are_not_written_to": (Guard(PARTIAL, " and found.st_nlink == 1", ""), f"{UNIT}/test_partial.py"),
    "one_writer": (Guard(PARTIAL, "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH"), f"{UNIT}/test_partial.py"),
    "AR_07_limit_while_streaming": (
        Guard(STREAM, "if limits.most and offset > limits.most:", "if False:"),
        f"{UNIT}/test_stream.py::test_AR_07_the_size_limit_holds_while_streaming",
    ),
    "AR_07_limit_of_the_policy": (
        Guard(STEP, "(view.policy.max_artifact_size_bytes, own)", "(own,)"),
        LIMITS,
    ),
    "a_cut_is_not_the_end": (Guard(CONNECTION, "suppress_ragged_eofs=False", "suppress_ragged_eofs=True"), RESUME),
    "AR_06_source": (
        Guard(BLOB, "if not wanted.allowed(wanted.url):", "if False:"),
        f"{LIMITS}::test_AR_06_a_source_outside_the_policy_is_not_asked",
    ),
    "AR_06_redirect": (
        Guard("hostler.agent.fetch.redirects", "if not self._allowed(url):", "if False:"),
        f"{UNIT}/test_targets.py",
    ),
    "AR_06_https_only": (Guard(CONNECTION, 'parts.scheme != "https" or ', ""), f"{UNIT}/test_targets.py"),
    "A4_private_addresses": (
        Guard(CONNECTION, "if not settings.allow_private and ", "if False and "),
        f"{UNIT}/test_targets.py",
    ),
    "TLS_is_verified": (
        Guard(
            CONNECTION,
            "context = ssl.create_default_context()",
            "context = ssl._create_unverified_context()",
        ),
        LIMITS,
    ),
    "A5_slow_source": (
        Guard("hostler.agent.fetch.watch", "                    rate.check()", "                    pass"),
        f"{LIMITS}::test_A5_one_byte_a_second_ends_as_unreachable",
    ),
    "A5_disk_reserve": (
        Guard(BLOB, "if free - more < reserve:", "if False:"),
        f"{LIMITS}::test_A5_the_disk_reserve_is_kept",
    ),
    "SK_12_red_is_red": (
        Guard("hostler.agent.steps.health_check", "        if failed:", "        if False:"),
        HEALTH,
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_the_suite_goes_red_without(name: str) -> None:
    guard, tests = GUARDS[name]
    done = outcome_without(guard, tests)
    assert done.returncode == 1, done.stdout[-1500:] + done.stderr[-500:]
    assert " failed" in done.stdout
