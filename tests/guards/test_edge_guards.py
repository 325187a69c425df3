"""Each guard of the control plane's edges, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

API = "hostler.control.api"
RPC = "hostler.control.rpc"
SESSIONS, ENROLMENT, SERVICE = "flow/test_sessions.py", "flow/test_enrolment.py", "flow/test_control_service.py"
S2 = "fault/test_S2_foreign_tenant.py::test_S2"
AUTHZ, EDGE, LINK = "unit/control/api/test_authz.py", "unit/control/api/test_edge.py", "unit/control/rpc/test_link.py"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:30]}")


GUARDS = [
    guard(
        f"{API}.web",
        "default-src 'none'; script-src",
        "script-src",
        f"{EDGE}::test_a_page_is_served_under_a_policy_that_lets_nothing_else_in",
    ),
    guard(
        f"{API}.app",
        "        permit(call.principal, self._route.permission)\n",
        "",
        f"{AUTHZ}::test_AZ_01_to_05_each_role_may_do_what_its_permissions_say_and_nothing_else",
    ),
    guard(
        f"{API}.authz",
        "if principal.role not in PERMISSIONS.get(permission, frozenset()):",
        "if principal.role not in PERMISSIONS.get(permission, frozenset()) and False:",
        f"{AUTHZ}::test_AZ_01_to_05_each_role_may_do_what_its_permissions_say_and_nothing_else",
    ),
    guard(
        f"{API}.authz",
        "if principal.role == MEMBER and principal.name != requested_by:",
        "if False:",
        f"{AUTHZ}::test_AZ_04_a_member_cancels_its_own_operations_only",
    ),
    guard(
        f"{API}.authz",
        "principal.org_id == org_of_project:",
        "org_of_project:",
        f"{AUTHZ}::test_AZ_10_S2_a_foreign_tenant_gets_404_from_every_route_of_a_project",
    ),
    guard(
        f"{API}.authz",
        "principal.project_id == project_id and org_of_project in",
        "org_of_project in",
        f"{AUTHZ}::test_AZ_10_S2_a_member_of_a_sister_project_gets_404_too",
    ),
    guard(
        f"{API}.authz",
        '"operations.retry": frozenset({PLATFORM, TENANT, ADMIN}),',
        '"operations.retry": _WRITE,',
        "unit/control/api/test_role_matrix.py::test_the_permissions_of_the_code_give_exactly_these_roles",
    ),
    guard(
        f"{API}.authz",
        """    raise error("not_found", f"there is no project {project_id!r} in your scope")""",
        """    raise error("scope_denied" if org_of_project else "not_found", f"there is no project {project_id!r}")""",
        f"{S2}_AZ_10_whatever_is_asked_for_is_not_there_or_not_allowed",
    ),
    guard(
        "hostler.control.store.artifacts",
        "WHERE operation_id = ? AND artifact_id = ?",
        "WHERE ? <> '' AND artifact_id = ?",
        f"{S2}_AZ_10_whatever_is_asked_for_is_not_there_or_not_allowed",
    ),
    guard(
        "hostler.control.store.events",
        """(("org_id", org_id), ("project_id", project_id)):""",
        "():",
        f"{S2}_lists_and_streams_hold_nothing_of_another_tenant",
    ),
    guard(
        f"{API}.principal",
        'raise error("unauthenticated", "the bearer token is not known, revoked or expired")',
        'return Caller(name="anybody", role="platform_admin")',
        f"{AUTHZ}::test_without_a_token_or_with_a_foreign_one_no_route_answers",
    ),
    guard(
        f"{API}.routes.principals",
        "    call.parts.authenticator.forget()\n",
        "",
        f"{AUTHZ}::test_a_revoked_principal_is_nobody_from_that_moment",
    ),
    guard(
        f"{API}.app",
        "await call.execute(_refusal(",
        "(_refusal(",
        f"{AUTHZ}::test_SE_02_every_refused_mutation_leaves_exactly_one_line_in_the_audit",
    ),
    guard(
        f"{API}.app",
        "    if not _is_local(request):\n",
        "    if False:\n",
        f"{EDGE}::test_OB_04_metrics_are_for_this_machine_and_for_whoever_has_a_token",
    ),
    guard(
        f"{API}.call",
        "            if size > limit:\n",
        "            if False:\n",
        "flow/test_api_bad_inputs.py::test_a_body_beyond_the_limit_is_not_read_to_its_end",
    ),
    guard(
        f"{RPC}.identity",
        "if known.revoked:",
        "if False:",
        f"{SESSIONS}::test_PK_07_every_unary_call_is_checked_as_well",
    ),
    guard(
        f"{RPC}.identity",
        "if known.thumbprint != peer.thumbprint:",
        "if False:",
        f"{SESSIONS}::test_PK_10_a_certificate_for_another_key_of_the_node_is_refused",
    ),
    guard(
        f"{RPC}.identity",
        "if state not in _GOOD:",
        "if False:",
        f"{SESSIONS}::test_a_certificate_that_was_never_recorded_is_refused",
    ),
    guard(
        "hostler.control.assembly",
        'links.close_node(node_id, "revoked", "the node is revoked")',
        "None",
        f"{SESSIONS}::test_I1_PK_07_revoking_a_node_ends_its_open_stream_at_once_and_lets_it_in_no_more",
    ),
    guard(
        f"{RPC}.node_service",
        "if key.key_id != peer.thumbprint:",
        "if False:",
        f"{SESSIONS}::test_PK_03_04_a_renewal_keeps_the_key_and_the_old_certificate_until_the_new_one_is_used",
    ),
    guard(
        f"{RPC}.node_service",
        "if known is None or known.node_id != peer.name:",
        "if known is None:",
        f"{SESSIONS}::test_I7_a_node_cannot_poll_another_nodes_session",
    ),
    guard(
        f"{RPC}.link",
        "if not self._hello_seen and not isinstance(value, Hello):",
        "if False:",
        f"{LINK}::test_nothing_is_taken_before_the_hello",
    ),
    guard(
        f"{RPC}.link",
        "if now_ms >= self._peer.not_after_ms:",
        "if False:",
        f"{LINK}::test_a_session_does_not_outlive_its_certificate",
    ),
    guard(
        f"{RPC}.link",
        "elif monotonic - self._heard_at > _SILENT_BEATS * self._heartbeat_s:",
        "elif False:",
        f"{LINK}::test_a_node_that_misses_three_heartbeats_is_gone",
    ),
    guard(
        f"{RPC}.progress",
        "key = Key(node_id, step.task_id)",
        'key = Key("n1", step.task_id)',
        "unit/control/rpc/test_progress.py::test_I7_what_a_node_says_of_a_task_that_is_not_its_own_reaches_nobody",
    ),
    guard(
        f"{RPC}.enrolment_service",
        "        self._check_rate(address)\n        try:\n            with self._metrics.lifecycle.timed(ENROL):",
        "        try:\n            with self._metrics.lifecycle.timed(ENROL):",
        f"{ENROLMENT}::test_guessing_is_slowed_down_and_a_whole_rack_is_not",
    ),
    guard(
        "hostler.control.config",
        "if not has_tls and not _is_loopback(host):",
        "if False:",
        f"{SERVICE}::test_plain_http_beyond_loopback_is_refused",
    ),
    guard(
        "hostler.control.store.db",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "        pass\n",
        f"{SERVICE}::test_a_second_process_cannot_open_the_store",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_without_the_guard_its_test_goes_red(guard: Guard, test: str) -> None:
    ended = outcome_without(guard, test)
    assert ended.returncode == 1, ended.stdout[-3000:] + ended.stderr[-2000:]
