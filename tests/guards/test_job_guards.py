"""Each guard of jobs, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

K = "hostler.control.kernel"
JOBS, FLOW, PASS, PLACES, ROOM = f"{K}.jobs", f"{K}.job_flow", f"{K}.job_pass", f"{K}.job_places", f"{K}.job_room"
KERNEL = "unit/control/kernel"
RULES, PLACED, ATTEMPTS = f"{KERNEL}/test_jobs.py", f"{KERNEL}/test_job_placement.py", f"{KERNEL}/test_job_attempts.py"
TREES, NODES_LOST = f"{KERNEL}/test_job_trees.py", f"{KERNEL}/test_job_lost_nodes.py"
PURE, API, LOST = (
    "unit/control/kernel/test_scheduling.py",
    "unit/control/api/test_jobs.py",
    "fault/test_EF_06_lost_nodes.py",
)
CHILD = f"{TREES}::test_TE_08_a_running_task_submits_children_in_its_own_name_and_nobody_elses"
FOREIGN = f"{TREES}::test_S2_a_job_of_another_project_is_not_there"
POOL = f"{PLACED}::test_a_job_stays_on_its_own_projects_nodes_and_off_those_of_an_allocation"
PROPERTIES = f"{PURE}::test_properties_of_every_pass"
PREEMPTS = f"{ATTEMPTS}::test_preemption_never_of_what_is_not_preemptible_nor_more_often_than_allowed"
REROUTE = f"{NODES_LOST}::test_EF_06_a_task_of_a_lost_node_is_placed_anew_in_its_time_and_the_old_one_is_cancelled"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:40]}")


GUARDS = [
    # who may ask for which band, and for whose keys
    guard(
        JOBS,
        "command.actor.role != MEMBER and command.actor.kind != TASK",
        "command.actor.kind != TASK",
        f"{RULES}::test_AZ_04_a_member_asks_for_no_band_above_its_own",
    ),
    guard(
        JOBS,
        "command.actor.role != MEMBER and command.actor.kind != TASK",
        "command.actor.role != MEMBER",
        f"{RULES}::test_AZ_04_a_task_gets_no_more_for_its_children_than_its_job_or_a_member_has",
    ),
    guard(
        "hostler.control.api.call",
        "if (in_body or in_header).startswith(OWN_KEYS):",
        "if False:",
        "flow/test_api_bad_inputs.py::test_P6_nobody_takes_a_key_that_the_control_plane_will_make",
    ),
    guard(
        "hostler.control.child_jobs",
        "{OWN_KEYS}child/{caller.attempt_uid}/",
        "{caller.attempt_uid}/",
        "flow/test_jobs_over_http.py::test_TE_08_a_tasks_own_call_makes_and_ends_its_children",
    ),
    # whose job it is
    guard(JOBS, "        and task.node_id == command.node_id\n", "", CHILD),
    guard(
        JOBS,
        "    if operation.status in FINAL or operation.cancel_requested_ms:",
        "    if False:",
        f"{RULES}::test_JB_01_a_child_of_a_missing_parent_is_refused",
    ),
    guard(JOBS, "        and task.attempt_uid == command.attempt_uid\n", "", CHILD),
    guard(JOBS, "        and task.state in IN_FLIGHT\n", "", CHILD),
    guard(JOBS, "job.project_id != command.project_id or (", "(", FOREIGN),
    guard(JOBS, " or (actor.org_id and actor.org_id != job.org_id):", ":", FOREIGN),
    guard(
        JOBS,
        "or own.job_id not in (each.job_id for each in job_book.ancestors(draft, job)):",
        ":",
        f"{TREES}::test_JB_04_a_task_ends_what_is_below_its_own_job_and_no_other",
    ),
    guard(
        JOBS,
        "    if job is None or (job.org_id, job.project_id) != (org_id, project_id):",
        "    if job is None:",
        f"{RULES}::test_JB_01_a_child_of_a_missing_parent_is_refused",
    ),
    guard(
        JOBS,
        "    if command.actor.role == MEMBER and command.actor.name != parent.owner:",
        "    if False:",
        f"{TREES}::test_TE_16_a_member_puts_no_child_into_anothers_namespace",
    ),
    guard(
        JOBS,
        "    if spec.cluster and spec.backend:",
        "    if False:",
        f"{API}::test_JB_06_a_cluster_and_a_backend_at_once_are_unprocessable",
    ),
    guard(
        JOBS,
        'if name.count("/") > MOST_PARTS:',
        "if False:",
        f"{RULES}::test_a_path_has_at_most_sixteen_parts",
    ),
    guard(
        "hostler.control.api.routes.jobs",
        "    permit_own(call.principal, job.user)\n",
        "",
        f"{API}::test_JB_03_04_keep_cancel_and_cancel_again",
    ),
    # where it may run
    guard(
        PASS,
        "and (node.org_id, node.project_id, node.allocation_id) == (org_id, project_id, allocation_id)",
        "",
        f"{PLACED}::test_a_freed_node_of_another_hand_is_not_looked_at",
    ),
    guard(PASS, '        if node.state == "active"\n        and ', "        if ", POOL),
    guard(PLACES, "not fits(amounts, place.free) or ", "", PROPERTIES),
    guard(
        PLACES,
        " or place.node_id in not_on:",
        ":",
        f"{PURE}::test_EF_06_an_old_attempt_keeps_its_task_from_its_node_and_a_bad_node_comes_last",
    ),
    guard(
        "hostler.control.kernel.targets",
        ' or ("group",)',
        "",
        f"{PLACED}::test_AZ_06_the_policy_counts_for_jobs_and_its_change_wakes_them",
    ),
    # who makes room
    guard(
        ROOM,
        "        if priority <= self._lowest:\n            return False\n",
        "        priority += 1000\n",
        f"{PURE}::test_nobody_makes_room_for_an_equal_and_nobody_in_vain",
    ),
    guard(FLOW, "    if count > spec_of(job.spec).retries.preemption:", "    if False:", PREEMPTS),
    # no second copy
    guard(
        FLOW,
        'wants_no_more = code == "container_lost" and spec_of(job.spec).retries.on_lost == "fail"',
        "wants_no_more = False",
        f"{ATTEMPTS}::test_JB_05_what_a_lost_container_means_is_the_job_s_to_say",
    ),
    guard(
        FLOW,
        "    if unsure and not spec_of(job.spec).relocatable:\n        return None\n",
        "",
        f"{NODES_LOST}::test_a_revoked_node_ends_what_may_not_run_twice_and_gives_the_rest_back",
    ),
    guard(FLOW, "    _stray(draft, task)\n    message", "    message", REROUTE),
    guard(
        JOBS,
        "reroute_after_ms=settings.lost_grace_ms if spec.relocatable else fence_ms",
        "reroute_after_ms=settings.lost_grace_ms",
        f"{NODES_LOST}::test_EF_05_a_job_that_may_not_run_twice_waits_for_its_node",
    ),
    guard(JOBS, "spec.fence_seconds * 1000 + settings.fence_margin_ms", "spec.fence_seconds * 1000", REROUTE),
    guard(
        "hostler.control.kernel.fold",
        "    if attempt is not None and attempt.task_id == task.task_id and attempt.node_id == node_id:",
        "    if attempt is not None and attempt.task_id == task.task_id:",
        f"{PLACED}::test_I7_a_node_speaks_of_its_own_attempts_only",
    ),
    guard(
        "hostler.control.dispatch.build",
        "order.attempt_uid or task.attempt_uid",
        "task.attempt_uid",
        f"{LOST}::test_EF_06_the_old_attempt_is_cancelled_by_its_own_id_when_its_node_is_back",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, test)
    assert done.returncode == 1, done.stdout + done.stderr
