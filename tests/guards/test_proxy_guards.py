"""Each guard of the endpoint proxy, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

FORWARD, EXCHANGE = "hostler.agent.containers.forward", "hostler.control.api.exchange"
LINES, ROUTE = "hostler.control.api.lines", "hostler.control.api.routes.endpoint_proxy"
NODE, PASSED = "unit/agent/containers/test_forward.py", "unit/control/api/test_exchange.py"
SCOPE = "flow/test_endpoint_proxy.py"
STEP, CARRIED = "hostler.agent.steps.task_forward", "unit/agent/steps/test_task_forward.py"
LOCAL, PORT = "hostler.cli.endpoint_forward", "unit/cli/test_endpoint_forward.py"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:30]}")


GUARDS = [
    guard(
        STEP,
        "Probe(truth=Truth.DONE, ",
        "Probe(truth=Truth.NOT_DONE, ",
        f"{CARRIED}::test_TE_22_K2_after_a_restart_it_is_over_and_is_not_begun_again",
    ),
    guard(
        STEP,
        "Session(relay, _nothing, tty=False)",
        "Session(relay, lambda data: context.log('stdout', repr(data)), tty=False)",
        f"{CARRIED}::test_TE_22_it_carries_one_connection_and_says_how_much_and_not_what",
    ),
    guard(
        FORWARD,
        "    if port not in workloads.ports.held(attempt_uid).values():",
        "    if False:",
        f"{NODE}::test_TE_22_a_port_that_the_attempt_does_not_hold_is_refused_though_somebody_listens",
    ),
    guard(
        FORWARD,
        "hosts = (own,) if own else ",
        "hosts = ",
        f"{NODE}::test_TE_22_a_container_with_an_address_of_its_own_is_reached_there_alone",
    ),
    guard(
        EXCHANGE,
        'b"authorization cookie expect',
        'b"expect',
        f"{PASSED}::test_TE_22_credentials_of_the_control_plane_end_here",
    ),
    guard(
        EXCHANGE,
        'if not name.startswith(b"x-forwarded-")',
        "if name",
        f"{PASSED}::test_TE_22_a_client_says_nothing_about_where_it_comes_from",
    ),
    guard(
        EXCHANGE,
        " and name not in named]",
        "]",
        f"{PASSED}::test_TE_22_a_connection_keeps_its_headers_to_itself",
    ),
    guard(
        EXCHANGE,
        'if name != b"content-length"',
        "if name",
        f"{PASSED}::test_TE_22_a_connection_keeps_its_headers_to_itself",
    ),
    guard(
        EXCHANGE, " service-worker-allowed set-cookie", "", f"{PASSED}::test_TE_22_a_task_does_not_speak_of_our_origin"
    ),
    guard(
        EXCHANGE,
        ' b"content-security-policy": b"sandbox",',
        "",
        f"{PASSED}::test_TE_22_a_task_does_not_speak_of_our_origin",
    ),
    guard(
        ROUTE,
        "    if call.principal.role == MEMBER and call.principal.name != job.requested_by_user_id:",
        "    if False:",
        f"{SCOPE}::test_AZ_04_a_member_reaches_its_own_jobs_alone",
    ),
    guard(
        ROUTE,
        "await call.project(), ",
        'call.path("project_id"), ',
        f"{SCOPE}::test_S2_an_endpoint_of_another_tenant_is_not_there",
    ),
    guard(
        LINES,
        "            if line.relay.is_quiet:",
        "            if True:",
        f"{PASSED}::test_TE_22_one_in_which_the_task_said_something_unasked_is_not_used_again",
    ),
    guard(
        LINES,
        "        if len(own) >= MOST_OF_ONE:",
        "        if False:",
        f"{PASSED}::test_TE_22_a_principal_has_so_many_and_idle_ones_give_way",
    ),
    *(
        guard(LOCAL, text, without, f"{PORT}::test_TE_22_{test}")
        for text, without, test in (
            ('ADDRESS = "127.0.0.1"', 'ADDRESS = "0.0.0.0"', "it_is_open_on_loopback_alone"),
            (
                "if host.lower() not in self.server.hosts:",
                "if False:",
                "a_name_that_was_made_to_lead_here_gets_nothing",
            ),
            ("if origin is not None and origin", "if False and origin", "a_page_of_another_origin_gets_nothing"),
            (
                'if site not in ("none", "same-origin") and',
                "if False and",
                "a_page_of_another_site_gets_nothing_but_what_somebody_follows",
            ),
            (" or _DOTS.search(path):", ":", "no_path_leads_out_of_the_endpoint"),
            ("if not _TARGET.fullmatch(self.path) or", "if", "what_is_asked_for_is_a_plain_path"),
            (" or length is not None:", ":", "where_a_body_ends_is_said_once"),
            ('("authorization", "host",', '("host",', "headers_of_the_client_that_are_ours_to_say_stay_here"),
        )
    ),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("removed", "test"), GUARDS)
def test_without_the_guard_its_test_goes_red(removed: Guard, test: str) -> None:
    done = outcome_without(removed, test)
    assert done.returncode == 1, done.stdout[-2000:]
