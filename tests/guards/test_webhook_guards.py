"""Each guard of webhooks, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

PLACE, SEND = "hostler.control.webhooks.destination", "hostler.control.webhooks.send"
KERNEL, LOOP = "hostler.control.kernel.webhooks", "hostler.control.loops.webhooks"
PLACES, FLOW = "unit/control/webhooks/test_destination.py", "flow/test_webhooks.py"
RECEIVERS = "flow/test_webhook_receivers.py"
RULES, API = "unit/control/kernel/test_webhooks.py", "unit/control/api/test_webhooks.py"
INSIDE = f"{PLACES}::test_AZ_10_an_address_inside_is_refused_written_out_or_behind_a_name"
PLAIN = f"{PLACES}::test_what_is_no_plain_https_address_is_refused"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), f"tests/{test}", id=f"{module.rpartition('.')[2]}-{text[:30]}")


GUARDS = [
    guard(PLACE, "if not plain.is_global or plain.is_multicast:", "if False:", INSIDE),
    guard(PLACE, " or plain.is_multicast:", ":", INSIDE),
    guard(PLACE, "    if any(address in network for network in _HOLD_IPV4):", "    if False:", INSIDE),
    guard(PLACE, 'if parts.scheme != "https":', "if False:", PLAIN),
    guard(PLACE, ' or "@" in parts.netloc', "", PLAIN),
    guard(PLACE, 'if not _is_host(parts.hostname or "") or port == 0', "if port == 0", PLAIN),
    guard(
        PLACE,
        "        for text in found:\n",
        "        for text in found[:1]:\n",
        f"{PLACES}::test_every_address_of_a_name_must_be_allowed",
    ),
    guard(
        SEND,
        "await self.destinations.pin(place)",
        "(await self.destinations._resolve(place.host, place.port))[0]",
        f"{RECEIVERS}::test_SSRF_an_address_inside_is_never_connected_to",
    ),
    guard(
        SEND,
        'pinned = f"https://{literal}:{place.port}{place.target}"',
        'pinned = f"https://{place.host}:{place.port}{place.target}"',
        f"{RECEIVERS}::test_SSRF_the_address_that_was_checked_is_the_one_connected_to",
    ),
    guard(
        SEND,
        "    if 200 <= status < 300:\n",
        "    if 200 <= status < 400:\n",
        f"{RECEIVERS}::test_a_redirect_is_a_refusal_and_not_followed",
    ),
    guard(
        SEND,
        "async with asyncio.timeout(TIMEOUT_S):",
        "async with asyncio.timeout(None):",
        f"{RECEIVERS}::test_a_receiver_that_does_not_answer_is_given_up_in_time",
    ),
    guard(
        KERNEL,
        "project_id not in (None, row.project_id)",
        "False",
        f"{RULES}::test_AZ_10_a_webhook_of_another_scope_is_not_there",
    ),
    guard(
        KERNEL,
        " or org_id not in (None, row.org_id):",
        ":",
        f"{RULES}::test_AZ_10_a_webhook_of_another_scope_is_not_there",
    ),
    guard(
        KERNEL,
        " or command.position < cursor.position:",
        ":",
        f"{RULES}::test_EV_10_the_position_never_goes_back_and_attempts_are_of_one_event",
    ),
    guard(
        KERNEL,
        'if own and type_ in ("webhook.test", "webhook.parked", "webhook.resend", "webhook.resend_stopped"):',
        'if own and type_ == "webhook.test":',
        f"{RULES}::test_what_a_webhook_wants",
    ),
    guard(
        "hostler.control.api.routes.webhooks",
        "    if not await call.engine.reader.has_webhook(webhook_id, org_id, project_id):\n",
        "    if False:\n",
        f"{API}::test_AZ_10_S2_a_webhook_of_another_tenant_is_neither_seen_nor_ended",
    ),
    guard(
        LOOP,
        "                break\n            taken.append(event.id)\n",
        "                continue\n            taken.append(event.id)\n",
        f"{FLOW}::test_EV_10_a_resend_ends_at_the_first_event_that_is_not_taken",
    ),
    guard(
        KERNEL,
        '    if row.state == "disabled":',
        "    if False:",
        f"{RULES}::test_nothing_is_resent_to_a_disabled_webhook",
    ),
    guard(
        "hostler.control.api.routes.webhooks",
        "    means.destinations.check(body.url)\n",
        "",
        f"{API}::test_an_address_inside_is_refused_when_it_is_named",
    ),
    guard(
        "hostler.control.api.routes.webhooks",
        "    if not org_id:",
        "    if False:",
        f"{API}::test_a_project_that_is_nobody_s_yet_gets_no_webhook",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, test)
    assert done.returncode == 1, done.stdout + done.stderr
