"""Every guard around a tenant's leaving is taken out once, and its test must go red.

Signals are replaced in all of these tests, and every path lies below a directory of theirs.
"""

import pytest

from support.mutant import Guard, outcome_without

AGENT = "hostler.agent"
EVICTION, ACCOUNTS, TREES = f"{AGENT}.host.eviction", f"{AGENT}.host.accounts", f"{AGENT}.host.tenant_trees"
ERASURE, DISKS = f"{AGENT}.host.erasure", f"{AGENT}.host.block_devices"
SHARED, CHECK, CERTIFY = (f"{AGENT}.steps.{name}" for name in ("allocation", "residue_check", "handover_certify"))
READER, MODEL = f"{AGENT}.residue.reader", f"{AGENT}.residue.model"
ENDING = "tests/unit/agent/host/test_eviction.py"
FILES = "tests/unit/agent/host/test_accounts.py"
KINDS = "tests/unit/agent/steps/test_reclaim_kinds.py"
HOSTILE = "tests/unit/agent/residue/test_hostile_hosts.py"
SIGNED, HANDOVER = "tests/unit/pki/test_handover.py", "hostler.pki.handover"
LOCAL, AUTHORITY = "tests/unit/agent/admission/test_authority.py", f"{AGENT}.admission.authority"
R1 = "tests/fault/test_R1_a_disk_that_lies.py"

SWALLOWED = "if True:\n            return True\n        if False:"

# module, text that stands once, what is left without it, the test that must notice
GUARDS = {
    "only the tenant's processes": (
        EVICTION, "if found is not None and found.uid in uids:", "if found is not None:",
        ENDING, "test_OD_17_only_processes_of_the_tenant_are_told_to_end",
    ),
    "users of the system are never ended": (
        EVICTION, "            check_uid(uid, str(uid))\n", "            pass\n",
        ENDING, "test_OD_17_users_of_the_system_are_refused_before_anything_is_looked_at",
    ),
    "no range over the system's users": (
        EVICTION, "if r.start >= LOWEST_UID and NOBODY not in r", "",
        ENDING, "test_ids_inside_a_user_s_name_space_count_and_a_range_over_the_system_does_not",
    ),
    "users of the system are never changed": (
        ACCOUNTS, "if uid < LOWEST_UID or uid == NOBODY or uid == os.geteuid() or uid >= 2**31:", "if False:",
        FILES, "test_a_user_of_the_system_is_neither_fenced_nor_removed",
    ),
    "nobody joins root's group": (ACCOUNTS, "if account.gid == 0:", "if False:",
        FILES, "test_no_user_of_the_system_is_made",
    ),
    "the account files are locked": (
        ACCOUNTS, "                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "",
        FILES, "test_a_lock_that_somebody_keeps_is_an_error_and_no_wait_for_ever",
    ),
    "a mount that stays is an error": (
        TREES, "if self._root != Path(\"/\"):", "if True:\n            return\n        if False:",
        KINDS, "test_PF_09_a_mount_of_another_machine_is_not_hidden_by_a_lazy_unmount",
    ),
    "the allocation of the task is the step's": (
        SHARED, "if view.allocation_id and view.allocation_id != named:", "if False:",
        KINDS, "test_a_task_of_another_allocation_is_refused_by_every_kind",
    ),
    "a link needs the one before it": (
        SHARED, "if not of_link or of_link[-1].task_state != SUCCEEDED:", "if not of_link:",
        KINDS, "test_AL_06_a_link_is_refused_without_the_one_before_it",
    ),
    "links count only in order": (
        SHARED, "if ended and of_link[-1].number < ended[-1].number:", "if False:",
        KINDS, "test_AL_06_links_in_another_order_do_not_count",
    ),
    "an account with another id is reported": (
        SHARED, "    if found.altered:\n", "    if False:\n",
        KINDS, "test_a_tenant_who_became_root_is_locked_out_and_reported",
    ),
    "the baseline is the one of the receipt": (
        CHECK, "if data is None or not same_digest(sha256_hex(data), named):", "if data is None:",
        KINDS, "test_PF_11_a_baseline_that_the_journal_does_not_vouch_for_is_none",
    ),
    "a gap is no clean bill": (CHECK, "    if after.gaps:\n        listed", "    if False:\n        listed",
        KINDS, "test_R2_a_host_that_cannot_be_seen_whole_is_not_clean",
    ),
    "the canary has to be found": (CHECK, "    if not canary_found:\n", "    if False:\n",
        KINDS, "test_R2_a_canary_that_is_not_found_is_no_clean_bill",
    ),
    "no certificate over a failed step": (CERTIFY, "if step.state not in GOOD:", "if False:",
        KINDS, "test_AL_06_no_certificate_over_a_failed_step_or_without_a_check",
    ),
    "no certificate without a check": (CERTIFY, "if params.after and not checked:", "if False:",
        KINDS, "test_AL_06_no_certificate_over_a_failed_step_or_without_a_check",
    ),
    "entries are counted": (READER, "        if self.entries < 0:\n", "        if False:\n",
        HOSTILE, "test_R2_more_entries_than_may_be_looked_at_leave_a_gap_and_no_clean_bill",
    ),
    "time is counted": (READER, "        if self.deadline.passed():\n", "        if False:\n",
        HOSTILE, "test_R2_no_time_left_is_a_gap",
    ),
    "names are escaped": (MODEL, 'c if c.isprintable() else _escaped(c)', "c",
        HOSTILE, "test_R2_names_are_shown_escaped_and_stay_different",
    ),
    "receipts say what the certificate says": (
        HANDOVER, "        if wrong:\n", "        if False:\n",
        SIGNED, "test_a_link_that_failed_is_none_whatever_the_certificate_says",
    ),
    "the chain gives out this very certificate": (
        HANDOVER, "_signs(said) == given_out:", "_signs(said)[:3] == given_out[:3]:",
        SIGNED, "test_a_certificate_that_the_chain_does_not_give_out_is_none",
    ),
    "the certificate is signed by the node": (
        HANDOVER, "    dsse.verify(envelope, STATEMENT_TYPE, node_keys(chain))\n", "",
        SIGNED, "test_a_certificate_by_another_key_is_refused",
    ),
    "nothing failed since": (
        HANDOVER, 'for (_, step), status in state.items() if status != "succeeded"', "for _, step in ()",
        SIGNED, "test_a_step_that_failed_again_before_the_certificate_speaks_against_it",
    ),
    "root's word on users and disks": (
        AUTHORITY, "        for name, value in named_by(params):\n", "        for name, value in ():\n",
        LOCAL, "test_AZ_09_users_and_disks_that_a_step_lists_are_asked_about_too",
    ),
    "marks have to stay": (ERASURE, "if device.read(offset, BLOCK) != mark:", "if False:",
        R1, "test_R1_a_drive_full_of_zeros_that_ignores_writes_is_no_erased_drive",
    ),
    "zeros are read back": (ERASURE, 'if zeros and found.strip(b"\\0"):', "if False:",
        R1, "test_R1_a_drive_that_keeps_its_data_fails_by_name",
    ),
    "no weaker method": (
        ERASURE, "if self._method in KERNEL_METHODS and err.errno in _UNSUPPORTED:", SWALLOWED,
        R1, "test_R1_a_method_that_the_drive_lacks_is_not_replaced_by_a_weaker_one",
    ),
    "disks in use are refused": (DISKS, "        if reasons:\n", "        if False:\n",
        R1, "test_R1_a_disk_that_is_hidden_or_in_use_is_refused_with_what_hides_it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_the_reclaim_a_test_fails(name: str) -> None:
    module, text, without, folder, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), f"{folder}::{test}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
