"""Each guard of the task API, endpoints and actors, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL, CALLS = "hostler.control.kernel.endpoints", "hostler.control.rpc.task_calls"
QUERIES, PARSER = "hostler.control.store.local_tasks", "hostler.agent.taskapi.messages"
SERVER, SESSION, ROUTES = (f"hostler.agent.taskapi.{name}" for name in ("server", "session", "routes"))
ACTORS, HANDLES, SIGNING = (f"hostler.sdk.{name}" for name in ("actors", "handles", "signing"))
LEASES, KEYS = "hostler.sdk.endpoints", "hostler.control.rpc.namespace_keys"
RULES, FLOW = "unit/control/kernel/test_endpoints.py", "flow/test_task_calls.py"
STORE, HTTP = "unit/control/store/test_endpoints.py", "unit/agent/taskapi/test_messages.py"
API, ATTACKS = "unit/agent/taskapi/test_server.py", "unit/sdk/test_attacks_on_actors.py"
LOCAL, RENEWALS = "unit/sdk/test_local.py", "unit/sdk/test_leases.py"
STALE = f"{RULES}::test_stale_attempts_are_refused"
OWN = f"{RULES}::test_TE_10_a_task_advertises_its_own_node_and_no_other"
PORTS = f"{RULES}::test_TE_10_a_task_advertises_ports_that_it_holds"
OTHERS = f"{RULES}::test_a_task_of_another_node_a_revoked_node_and_an_operation_that_is_no_job_are_refused"
STRANGE = f"{HTTP}::test_what_is_not_certain_is_refused"
TREE = f"{FLOW}::test_a_task_cancels_below_itself_and_sees_its_own_tree"
TENANTS = f"{FLOW}::test_S2_tasks_of_another_project_see_nothing_of_each_other"
PICKLES = f"{ATTACKS}::test_OD_32_a_pickle_of_a_stranger_is_never_loaded"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:30]}")


GUARDS = [
    # whose attempt it is
    guard(KERNEL, "        and task.attempt_uid == attempt_uid\n", "", STALE),
    guard(KERNEL, "        and task.node_id == node_id\n", "", STALE),
    guard(KERNEL, "        and task.state in (ASSIGNED, RUNNING)\n", "", STALE),
    guard(KERNEL, '        and node.state == "active"\n', "", OTHERS),
    guard(KERNEL, "        and operation.operation_type in JOB_TYPES\n", "", OTHERS),
    guard(
        QUERIES, " AND t.attempt_uid = :attempt", "", f"{FLOW}::test_a_node_speaks_for_no_task_but_those_that_run_there"
    ),
    guard(QUERIES, " AND t.node_id = :node ", " ", f"{FLOW}::test_a_node_speaks_for_no_task_but_those_that_run_there"),
    guard(
        CALLS,
        " or caller.operation_type not in JOB_TYPES:",
        ":",
        f"{FLOW}::test_a_task_that_is_no_job_s_has_no_calls",
    ),
    # what it may advertise
    guard(KERNEL, "if not (_same(host, own) or _is_loopback(host)):", "if False:", OWN),
    guard(KERNEL, "    if port not in command.ports:", "    if False:", PORTS),
    guard(
        KERNEL,
        "own = reported or command.node_address",
        "own = command.node_address",
        f"{RULES}::test_TE_10_what_the_node_reported_counts_more_than_what_the_call_says",
    ),
    guard(
        KERNEL,
        'root_of(job_of(operation)["job"])',
        'job_of(operation)["namespace"]',
        f"{RULES}::test_TE_16_a_name_is_registered_under_the_path_of_the_root_job_whatever_the_inputs_say",
    ),
    guard(
        KERNEL,
        'elif known.state == "removed":',
        "elif False:",
        f"{RULES}::test_TE_14_a_renewal_that_comes_after_the_end_does_not_bring_the_name_back",
    ),
    guard(
        KERNEL,
        "        _check_room(draft, task)\n",
        "        pass\n",
        f"{RULES}::test_a_task_has_so_many_endpoints_and_no_more",
    ),
    guard(
        ROUTES,
        "ports=tuple(facts.ports.values())",
        "ports=(body.port,)",
        f"{API}::test_TE_10_the_node_s_address_and_the_task_s_ports_are_the_agent_s_to_say",
    ),
    # what is over is not there
    guard(
        QUERIES,
        "      AND (e.lease_deadline_ms IS NULL OR e.lease_deadline_ms > :now) AND",
        "      AND",
        f"{STORE}::test_TE_11_a_lease_that_is_over_is_hidden_at_once_and_swept_later",
    ),
    guard(
        QUERIES,
        "    WHERE e.state = 'registered' AND t.finished_at_ms = 0\n",
        "    WHERE e.state = 'registered'\n",
        f"{STORE}::test_TE_11_a_hard_killed_task_s_endpoint_disappears_although_its_lease_goes_on",
    ),
    # whose names, jobs and keys
    guard(
        QUERIES,
        " AND e.org_id = :org AND e.namespace = :namespace",
        " AND e.namespace = :namespace",
        f"{STORE}::test_AZ_10_a_name_of_another_tenant_or_project_is_not_there",
    ),
    guard(
        QUERIES,
        "e.lease_deadline_ms > :now) AND e.project_id = :project",
        "e.lease_deadline_ms > :now)",
        f"{STORE}::test_AZ_10_a_name_of_another_tenant_or_project_is_not_there",
    ),
    guard(
        "hostler.control.store.endpoints",
        "WHERE operation_id = ? AND org_id = ? AND project_id = ?",
        "WHERE operation_id = ? AND (? || ?) != ''",
        TENANTS,
    ),
    guard(
        CALLS,
        'if found is None or not (found.job == top or found.job.startswith(f"{top}/")):',
        "if found is None:",
        TREE,
    ),
    guard(CALLS, 'found.job.startswith(f"{top}/")', "found.job.startswith(top)", TREE),
    guard(
        CALLS,
        "        self._pace.take(attempt_uid, _COSTS.get(method, 1.0))\n",
        "",
        f"{FLOW}::test_calls_of_an_attempt_are_paced_and_others_are_not_held_up",
    ),
    guard(
        KEYS,
        'return self._derived("namespace", org_id, project_id, namespace)',
        'return self._derived("namespace", org_id, project_id)',
        f"{FLOW}::test_OD_32_keys_are_of_a_project_and_of_a_namespace_and_stay",
    ),
    guard(KEYS, 'return self._derived("project", org_id, project_id)', 'return self._derived("project")', TENANTS),
    # one certain request
    guard(PARSER, '    if "transfer-encoding" in headers:', "    if False:", STRANGE),
    guard(PARSER, "        if name in headers:", "        if False:", STRANGE),
    guard(PARSER, "    if len(query) != len(pairs):", "    if False:", STRANGE),
    guard(PARSER, "    if int(text) > MAX_BODY:", "    if False:", f"{HTTP}::test_sizes_are_bounded"),
    guard(PARSER, "    if len(lines) > MAX_HEADERS:", "    if False:", f"{HTTP}::test_sizes_are_bounded"),
    guard(
        SERVER,
        "async with asyncio.timeout(READ_S):",
        "async with asyncio.timeout(None):",
        f"{API}::test_who_speaks_slowly_is_cut_off_and_holds_up_nobody",
    ),
    guard(
        SERVER,
        " and held >= OWN:",
        ":",
        f"{API}::test_S2_tasks_that_hold_all_connections_of_a_node_leave_others_their_own",
    ),
    guard(
        SERVER, "if len(self._tasks) >= MOST_OF_TASK or not", "if not", f"{API}::test_connections_of_a_task_are_bounded"
    ),
    guard(
        SERVER,
        "            self._base.chmod(0o700)\n",
        "            self._base.chmod(0o755)\n",
        f"{API}::test_X33_only_the_container_that_is_shown_the_directory_reaches_the_socket",
    ),
    guard(SERVER, " | os.O_NOFOLLOW", "", f"{API}::test_a_directory_that_was_turned_into_a_link_is_not_followed"),
    guard(
        SESSION,
        "or age >= _STALE_S:",
        "or False:",
        f"{API}::test_lists_are_served_while_the_control_plane_is_away_but_not_for_ever_and_not_past_a_lease",
    ),
    # actors
    guard(
        ACTORS,
        "if not key or not signing.same(",
        "if not signing.same(",
        f"{ATTACKS}::test_a_key_that_there_is_not_signs_nothing",
    ),
    guard(
        ACTORS,
        'not signing.same(head.signed(key), self.headers.get("x-hostler-signature", ""))',
        "False",
        f"{ATTACKS}::test_a_call_with_another_key_or_none_is_refused_and_its_answer_proves_nothing",
    ),
    guard(
        ACTORS,
        "if head.audience != actors.audience or not",
        "if not",
        f"{ATTACKS}::test_a_call_for_another_task_or_of_another_time_is_refused",
    ),
    guard(
        ACTORS,
        "self.audience = info.attempt_uid if info",
        "self.audience = info.task_id if info",
        f"{ATTACKS}::test_a_call_for_one_try_at_a_task_is_nothing_to_the_next",
    ),
    guard(ACTORS, "if signing.sha256(body) != head.body_sha256:", "if False:", PICKLES),
    guard(ACTORS, "not (actors.pickle and head.key == signing.NAMESPACE)", "not actors.pickle", PICKLES),
    guard(ACTORS, "not (actors.pickle and head.key == signing.NAMESPACE)", "head.key != signing.NAMESPACE", PICKLES),
    guard(
        ACTORS,
        'if callable(found) and not name.startswith("_") else None',
        "if callable(found) else None",
        f"{ATTACKS}::test_private_methods_are_none_of_the_server_s",
    ),
    guard(
        ACTORS,
        " or int(length) > MAX_BODY:",
        ":",
        f"{ATTACKS}::test_a_body_is_not_read_before_its_head_is_proved_and_never_beyond_the_limit",
    ),
    guard(
        SIGNING,
        "            if nonce in self._at:\n",
        "            if False:\n",
        f"{ATTACKS}::test_a_recorded_call_counts_once",
    ),
    guard(
        SIGNING,
        "if not abs(now - float(said_at)) <= WINDOW_S:",
        "if abs(now - float(said_at)) > WINDOW_S:",
        f"{ATTACKS}::test_a_call_for_another_task_or_of_another_time_is_refused",
    ),
    guard(
        HANDLES,
        'if not signing.same(proof, answer.headers.get("x-hostler-signature", "")):',
        "if False:",
        f"{ATTACKS}::test_what_answers_in_an_actor_s_place_is_not_believed",
    ),
    guard(
        ACTORS,
        "        self._cut.start()\n",
        "",
        f"{ATTACKS}::test_a_stranger_who_speaks_slowly_is_cut_off_and_a_call_that_works_long_is_not",
    ),
    # the context of a job, and its leases
    guard(
        ACTORS,
        "target=context.run, args=(self.serve,)",
        "target=self.serve, args=()",
        f"{LOCAL}::test_TE_06_a_handler_sees_the_job_that_serves_it",
    ),
    guard(
        ACTORS,
        "arguments = (self._one, request, client_address)\n        threading.Thread(target=context.run, args=arguments",
        "arguments = (request, client_address)\n        threading.Thread(target=self._one, args=arguments",
        f"{LOCAL}::test_TE_06_a_handler_sees_the_job_that_serves_it",
    ),
    guard(
        LEASES,
        "        with self._speaking:\n            if not already:",
        "        if True:\n            if not already:",
        f"{RENEWALS}::test_TE_14_closing_waits_for_a_renewal_under_way_so_that_the_name_stays_away",
    ),
    guard(
        LEASES, 'if each["name"] == name)', "if True)", f"{RENEWALS}::test_TE_17_a_resolver_takes_the_exact_name_only"
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, test)
    assert done.returncode == 1, done.stdout + done.stderr
