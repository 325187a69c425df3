"""Handles mean something to the steps they were made for, once or until they expire: CR-03, CR-05, CR-06."""

import asyncio

import pytest

from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import CONSUMED, WIPED, Ending, SecretTable, StepSecrets
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError

CLOCK = SystemClock()


def table(seconds: float = 60) -> SecretTable:
    return SecretTable(Deadline.after(seconds, CLOCK), CLOCK)


def secret() -> Secret:
    return Secret.take(bytearray(b"correct horse battery"))


def code_of(held: SecretTable, handle: str, step: str) -> str:
    with pytest.raises(HostlerError) as caught:
        held.use(handle, step)
    assert not handle or handle not in caught.value.message
    return caught.value.code


async def test_CR_03_a_handle_works_for_the_steps_named_and_no_other() -> None:
    held, one = table(), secret()
    handle = StepSecrets(held, "mint").put(one, steps=frozenset({"login", "pull"}), lifetime_s=30)
    assert StepSecrets(held, "login").use(handle) is one
    assert held.use(handle, "pull") is one
    for other in ("mint", "verify", "", "Login", "login "):
        assert code_of(held, handle, other) == "unknown_handle"
    held.close()


async def test_CR_03_another_task_does_not_know_the_handle() -> None:
    held, other = table(), table()
    handle = held.put(secret(), steps=frozenset({"login"}), lifetime_s=30)
    assert code_of(other, handle, "login") == "unknown_handle"
    assert code_of(held, handle[:-1], "login") == "unknown_handle"
    assert code_of(held, "", "login") == "unknown_handle"
    held.close()


async def test_CR_03_an_expired_secret_is_wiped_on_time_and_unknown() -> None:
    held, one = table(), secret()
    handle = held.put(one, steps=frozenset({"login"}), lifetime_s=0.02)
    await asyncio.sleep(0.1)
    assert one.wiped
    assert code_of(held, handle, "login") == "unknown_handle"
    assert held.step_ended("x", succeeded=True, last=False) == (Ending(handle, WIPED),)


async def test_CR_03_expiry_holds_although_the_loop_was_busy() -> None:
    held, one = table(), secret()
    handle = held.put(one, steps=frozenset({"login"}), lifetime_s=0.0001)
    while not held._held[handle].deadline.passed():
        pass
    assert code_of(held, handle, "login") == "unknown_handle"
    assert one.wiped


async def test_CR_03_no_secret_outlives_its_task() -> None:
    held, one = table(0.02), secret()
    held.put(one, steps=frozenset({"login"}), lifetime_s=3600)
    await asyncio.sleep(0.1)
    assert one.wiped
    late = secret()
    with pytest.raises(HostlerError):
        held.put(late, steps=frozenset({"login"}), lifetime_s=30)
    assert late.wiped


async def test_CR_06_a_one_time_secret_is_consumed_by_one_step() -> None:
    held, one = table(), secret()
    handle = held.put(one, steps=frozenset({"join", "again"}), lifetime_s=30, one_time=True)
    assert held.use(handle, "join") is one
    assert held.use(handle, "join") is one  # its own second try
    assert code_of(held, handle, "again") == "unknown_handle"
    assert held.step_ended("join", succeeded=True, last=False) == (Ending(handle, CONSUMED),)
    assert one.wiped
    assert code_of(held, handle, "join") == "unknown_handle"


async def test_CR_06_a_one_time_secret_whose_step_failed_is_wiped() -> None:
    held, one = table(), secret()
    handle = held.put(one, steps=frozenset({"join"}), lifetime_s=30, one_time=True)
    held.use(handle, "join")
    assert held.step_ended("join", succeeded=False, last=True) == (Ending(handle, WIPED),)
    assert one.wiped


async def test_CR_06_an_unused_one_time_secret_is_wiped_not_consumed() -> None:
    held = table()
    handle = held.put(secret(), steps=frozenset({"join"}), lifetime_s=30, one_time=True)
    assert held.step_ended("join", succeeded=True, last=True) == (Ending(handle, WIPED),)


async def test_CR_05_a_secret_goes_with_the_last_step_that_may_use_it() -> None:
    held, one = table(), secret()
    handle = held.put(one, steps=frozenset({"login", "pull"}), lifetime_s=30)
    assert held.step_ended("mint", succeeded=True, last=False) == ()
    assert held.step_ended("pull", succeeded=True, last=False) == ()
    assert not one.wiped
    assert held.step_ended("login", succeeded=True, last=False) == (Ending(handle, WIPED),)
    assert one.wiped


@pytest.mark.parametrize(("succeeded", "last"), [(False, False), (True, True), (False, True)])
async def test_CR_05_a_failure_or_the_last_step_wipes_everything(succeeded: bool, last: bool) -> None:
    held, made = table(), [secret(), secret()]
    for one in made:
        held.put(one, steps=frozenset({"much later"}), lifetime_s=30)
    assert len(held.step_ended("first", succeeded=succeeded, last=last)) == 2
    assert all(one.wiped for one in made)


async def test_CR_05_close_wipes_and_takes_nothing_more() -> None:
    held, one, late = table(), secret(), secret()
    held.put(one, steps=frozenset({"login"}), lifetime_s=30)
    held.close()
    held.close()
    assert one.wiped
    with pytest.raises(HostlerError):
        held.put(late, steps=frozenset({"login"}), lifetime_s=30)
    assert late.wiped


async def test_a_handle_says_nothing_about_the_secret_and_cannot_be_guessed() -> None:
    held = table()
    handles = {held.put(secret(), steps=frozenset({"login"}), lifetime_s=30) for _ in range(20)}
    assert len(handles) == 20
    assert all(len(handle) == len("secret:") + 32 for handle in handles)
    assert "correct" not in repr(held) + repr(held._held)
    held.close()
