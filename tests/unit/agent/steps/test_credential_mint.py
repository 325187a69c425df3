"""`credential.mint`: asks for what its parameters say, for whom they say, and waits no longer than it may (SK-04)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable
from hostler.agent.steps import credential_mint
from hostler.agent.steps.contract import MintedSecret, StepContext, Truth
from hostler.agent.steps.credential_mint import KIND
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.credential import Mint
from hostler.wire.task import Policy
from support.steps import Told, context_of

INTENT = {"endpoint": "https://hub.test", "repository": "team/model"}
CLOCK = SystemClock()


def params(**changes: Any) -> Mint:
    return Mint(**({"credential_type": "hf_token", "intent": INTENT, "for_steps": ("pull",)} | changes))


class Control:
    """Answers in turn; the last answer stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any], str]] = []

    async def __call__(self, type_: str, intent: dict[str, Any], part: str) -> MintedSecret:
        self.asked.append((type_, intent, part))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, HostlerError):
            raise answer
        if answer is None:
            await asyncio.sleep(600)
        return MintedSecret(Secret.take(bytearray(b"material")), CLOCK.now_ms() + 60_000, one_time=bool(answer))


@pytest.fixture
async def table() -> AsyncIterator[SecretTable]:
    made = SecretTable(Deadline.after(60, CLOCK), CLOCK)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_mint, "FIRST_PAUSE_S", 0.001)


def context(tmp_path: Path, table: SecretTable, control: Any, **more: Any) -> StepContext:
    return context_of(more.pop("params", params()), Host(root=tmp_path), Told(), secrets=table, mint=control, **more)


async def test_SK_04_the_output_is_a_handle_for_the_steps_named(tmp_path: Path, table: SecretTable) -> None:
    control = Control(False)
    made = await KIND.apply(context(tmp_path, table, control))
    assert control.asked == [("hf_token", INTENT, "")]
    assert set(made.outputs) == {"handle"}
    assert not table.use(made.outputs["handle"], "pull").wiped
    with pytest.raises(HostlerError) as caught:
        table.use(made.outputs["handle"], "step")
    assert caught.value.code == "unknown_handle"


async def test_CR_06_one_time_is_what_the_minter_says(tmp_path: Path, table: SecretTable) -> None:
    made = await KIND.apply(context(tmp_path, table, Control(True)))
    table.use(made.outputs["handle"], "pull")
    (ending,) = table.step_ended("pull", succeeded=True, last=False)
    assert ending.end == "consumed"


async def test_what_may_pass_is_asked_again_and_what_is_an_answer_is_not(tmp_path: Path, table: SecretTable) -> None:
    control = Control(error("minter_failed", "busy"), error("controller_unreachable", "away"), False)
    assert (await KIND.apply(context(tmp_path, table, control))).outputs
    assert len(control.asked) == 3
    for code in ("mint_not_bound", "mint_scope_denied", "mint_limit", "no_minter", "bad_signature"):
        control = Control(error(code, "no"))
        with pytest.raises(HostlerError) as caught:
            await KIND.apply(context(tmp_path, table, control))
        assert caught.value.code == code
        assert len(control.asked) == 1


async def test_a_control_plane_that_never_answers_ends_by_timeout(tmp_path: Path, table: SecretTable) -> None:
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(context(tmp_path, table, Control(None), deadline_s=0.05))
    assert caught.value.code == "timeout"
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(context(tmp_path, table, Control(error("minter_failed", "busy")), deadline_s=0.05))
    assert caught.value.code in ("minter_failed", "timeout")


async def test_a_cancel_is_heard_while_it_waits(tmp_path: Path, table: SecretTable) -> None:
    cancelled = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, cancelled.set)
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(context(tmp_path, table, Control(None), cancelled=cancelled))
    assert caught.value.code == "canceled"


@pytest.mark.parametrize(
    ("changes", "more", "code"),
    [
        ({"credential_type": "root"}, {}, "unknown_credential_type"),
        ({"intent": {"repository": "../x"}}, {}, "binding_error"),
        ({"for_steps": ("step",)}, {}, "binding_error"),
        ({}, {"allowed_sources": ("https://other.test/",)}, "source_denied"),
        ({}, {"policy": Policy(allowed_artifact_sources=("https://hub.test/other/",))}, "source_denied"),
    ],
)
async def test_CR_02_the_node_refuses_by_itself_what_is_not_allowed(
    tmp_path: Path, table: SecretTable, changes: dict[str, Any], more: dict[str, Any], code: str
) -> None:
    control = Control(False)
    for verb in (KIND.plan, KIND.apply):
        with pytest.raises(HostlerError) as caught:
            await verb(context(tmp_path, table, control, params=params(**changes), **more))
        assert caught.value.code == code
    assert control.asked == []


async def test_the_plan_says_what_is_asked_for_and_asks_nothing(tmp_path: Path, table: SecretTable) -> None:
    control = Control(False)
    (change,) = (await KIND.plan(context(tmp_path, table, control, params=params(part="token")))).changes
    assert (change.action, change.target) == ("mint", "hf_token")
    assert "repository team/model" in change.detail
    assert "token of it for pull" in change.detail
    assert control.asked == []


async def test_after_a_crash_it_was_not_done(tmp_path: Path, table: SecretTable) -> None:
    assert (await KIND.probe(context(tmp_path, table, Control(False)))).truth is Truth.NOT_DONE
