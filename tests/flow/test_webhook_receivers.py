"""Where a webhook may go, and what a receiver that is not one of ours can do to it (SSRF, S1)."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.control.loops import webhooks as loop_module
from hostler.control.webhooks import send
from hostler.control.webhooks.signing import shown
from support.hooked import Hooked, Names, hooked
from support.receiving import Receiver, receiver


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new webhook is followed now, not within a second: each test makes at least one."""
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.02)


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Receiver]:
    with receiver(tmp_path / "certs") as made:
        yield made


async def one_try(it: Hooked, url: str = "") -> Any:
    """The first outcome at a webhook's first event."""
    webhook_id = await it.add(url=url)

    async def tried() -> bool:
        view = await it.view(webhook_id)
        return bool(view.last_error or view.delivered)

    await it.until(tried)
    return await it.view(webhook_id)


async def test_SSRF_an_address_inside_is_never_connected_to(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook, allowed=()) as it:
        view = await one_try(it)
    assert "webhook_url_denied" in view.last_error
    assert hook.asked == []


async def test_SSRF_the_address_that_was_checked_is_the_one_connected_to(hook, tmp_path) -> None:
    """Were the name asked again, the second answer would lead elsewhere; the system knows no such name at all."""
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    async with hooked(tmp_path, hook, names) as it:
        await it.add()
        await it.until(lambda: bool(hook.taken))
    assert [event["type"] for event in hook.taken] == ["webhook.created"]
    assert names.asked == 1


async def test_a_redirect_is_a_refusal_and_not_followed(hook, tmp_path) -> None:
    hook.status = lambda event: 307
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    assert view.last_error == "status 307"


async def test_the_certificate_must_name_the_host(tmp_path) -> None:
    with receiver(tmp_path / "certs", names=("another.test",)) as hook:
        async with hooked(tmp_path, hook) as it:
            view = await one_try(it)
    assert view.last_error.startswith("not reachable")
    assert hook.asked == []


async def test_an_answer_without_an_end_is_cut_off(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(send, "MAX_ANSWER_BYTES", 1000)
    long = b"x" * 8_000_000
    hook.server.answer = lambda asked: (hook.answer(asked)[0], long)
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    assert view.delivered == 1


async def test_a_receiver_that_does_not_answer_is_given_up_in_time(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(send, "TIMEOUT_S", 0.3)
    stuck = threading.Event()
    hook.status = lambda event: 200 if stuck.wait(60) else 500
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    stuck.set()
    assert "no answer" in view.last_error


async def test_S1_no_secret_and_no_address_is_logged(hook, tmp_path, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="hostler")  # others speak from WARNING on, as logs.set_up has it
    hook.status = lambda event: 500
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
        secret = it.sender.key.secret(view.webhook_id)
    said = "\n".join(str(record.__dict__) for record in caplog.records)
    assert "webhook.failed" in said
    for hidden in ("s3cret-in-url", shown(secret), shown(secret)[6:], secret.hex(), "v1,"):
        assert hidden not in said
    for path in tmp_path.glob("control.db*"):
        assert secret not in path.read_bytes()
        assert shown(secret).encode() not in path.read_bytes()
