"""EV-10: the control plane is killed while it tells a receiver of events; none is lost, each keeps its place."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import PROJECT, TERMINAL_EVENTS, House, open_house
from support.receiving import Receiver, receiver

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-webhooks")]
ROUNDS = 3


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Receiver]:
    with receiver(tmp_path / "certs") as made:
        yield made


@pytest.fixture
def house(hook: Receiver) -> Iterator[House]:
    more = f'webhook_allowed_networks = ["127.0.0.0/8"]\nwebhook_ca_file = "{hook.certs.ca}"\n'
    with open_house(minters=lambda home: more) as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def test_EV_10_a_kill_in_mid_delivery_loses_no_event_and_changes_no_order(house: House, hook: Receiver) -> None:
    secret = house.home / "hook.secret"
    url = f"https://127.0.0.1:{hook.port}/hook"
    house.cli("webhooks", "add", url, "--secret-file", str(secret))
    hook.knows(secret.read_text())
    house.until(lambda: bool(hook.taken))
    start = hook.ids()[0]

    def slow(event: dict[str, object]) -> int:
        time.sleep(0.02)  # so that the kill falls between the taking and the writing down
        return 200

    hook.status = slow
    operations = []
    for _ in range(ROUNDS):
        operations += [house.submit("node.smoke.noop@v1") for _ in range(5)]
        before = len(hook.taken)
        house.until(lambda before=before: len(hook.taken) > before + 5)
        house.kill("control")
        house.serve()
    for operation_id in operations:
        assert house.finished(operation_id)["status"] == "succeeded"
    hook.status = lambda event: 200
    events = house.client.pages("/api/v1/events", page_size=1000, project_id=PROJECT)
    owed = [event["id"] for event in events if event["id"] >= start]
    house.until(lambda: set(hook.ids()) >= set(owed), limit_s=60)
    assert hook.ids() == sorted(hook.ids())
    assert [i for i in hook.ids() if i in set(owed)] == owed
    assert {event["id"]: event for event in hook.taken}.keys() >= set(owed)
    assert len({i for _, i in hook.asked}) == len({i for i, _ in hook.asked})  # an event has one id for ever
    for operation_id in operations:
        ends = {e["id"] for e in hook.taken if e["operation_id"] == operation_id and e["type"] in TERMINAL_EVENTS}
        assert len(ends) == 1

    shown = house.cli("webhooks", "list", "--output", "json")
    assert url in shown
    assert secret.read_text() not in shown
    (webhook_id,) = [item["webhook_id"] for item in house.client.pages(f"/api/v1/projects/{PROJECT}/webhooks")]
    assert "took event" in house.cli("webhooks", "test", webhook_id)
    assert hook.taken[-1]["type"] == "webhook.test"
    assert "removed" in house.cli("webhooks", "remove", webhook_id)
