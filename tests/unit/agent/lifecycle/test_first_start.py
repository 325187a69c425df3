"""PG-04: the first start of an installed agent enrols from a token file, and removes it."""

import asyncio
import os
from pathlib import Path

import pytest

from hostler.agent.lifecycle import first_start
from hostler.base.errors import error


class Enrolment:
    """Answers as told, one answer a call; "" enrols."""

    def __init__(self, state: Path, *codes: str) -> None:
        self.state, self.codes, self.tokens = state, list(codes), list[str]()

    async def __call__(self, token: str) -> None:
        self.tokens.append(token)
        code = self.codes.pop(0)
        if code:
            raise error(code, "no")
        (self.state / "identity").mkdir(parents=True)
        (self.state / "identity/node.json").write_text("{}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "_LOOK_S", 0.001)
    monkeypatch.setattr(first_start, "_AGAIN_S", 0.001)


async def start(state: Path, token: Path, enrolment: Enrolment) -> None:
    await first_start.until_enrolled(state, token, enrolment, Path.read_text)


async def test_an_enrolled_node_starts_at_once(tmp_path: Path) -> None:
    enrolment = Enrolment(tmp_path, "")
    await enrolment("before")
    await start(tmp_path, tmp_path / "token", enrolment)
    assert enrolment.tokens == ["before"]


async def test_K7_a_spent_token_that_a_power_cut_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    enrolment, token = Enrolment(tmp_path, ""), tmp_path / "token"
    token.write_text("one")
    await enrolment("one")
    await start(tmp_path, token, enrolment)
    assert not token.exists()
    assert enrolment.tokens == ["one"]


async def test_it_waits_for_the_token_enrols_once_and_removes_it(tmp_path: Path) -> None:
    enrolment, token = Enrolment(tmp_path, ""), tmp_path / "token"
    waiting = asyncio.create_task(start(tmp_path, token, enrolment))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    token.write_text("one")
    await asyncio.wait_for(waiting, 5)
    assert enrolment.tokens == ["one"]
    assert not token.exists()


async def test_a_refused_token_is_not_tried_again_until_it_is_another(tmp_path: Path) -> None:
    enrolment, token = Enrolment(tmp_path, "enrolment_token_used", ""), tmp_path / "token"
    token.write_text("spent")
    waiting = asyncio.create_task(start(tmp_path, token, enrolment))
    await asyncio.sleep(0.05)
    assert enrolment.tokens == ["spent"]
    assert token.exists()
    token.write_text("fresh")
    os.utime(token, ns=(1, 1))
    await asyncio.wait_for(waiting, 5)
    assert enrolment.tokens == ["spent", "fresh"]


async def test_a_control_plane_that_is_away_is_asked_again_with_the_same_token(tmp_path: Path) -> None:
    enrolment, token = Enrolment(tmp_path, "controller_unreachable", "controller_unreachable", ""), tmp_path / "token"
    token.write_text("one")
    await asyncio.wait_for(start(tmp_path, token, enrolment), 5)
    assert enrolment.tokens == ["one"] * 3
