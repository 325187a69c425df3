"""An engine outside is asked before the command, and the answer travels in it (AZ-11, OD-35)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from replay.recording import state_hash

from hostler.base.errors import HostlerError
from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.asking import WhatToAsk
from hostler.control.kernel.commands import PutPolicy
from hostler.control.kernel.model import Settings
from hostler.control.kernel.permitted import Answer, Question
from support.control import ADMIN, CountingIds, Fleet, fleet_in, submit
from support.keys import Keys

ASKS = Settings(asks_outside=True)


class Judge:
    """Says no to whatever `no` names."""

    query = "data.test.deny"

    def __init__(self, no: tuple[str, ...] = ()) -> None:
        self.no, self.asked = no, list[Question]()

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        allowed = question.version not in self.no
        return Answer(question_digest=question.digest(), allowed=allowed, reason="" if allowed else "never")


class Restless(Judge):
    """While it thinks, somebody writes a policy; `times` of them."""

    def __init__(self, fleet: Fleet, times: int) -> None:
        super().__init__()
        self._fleet, self._times = fleet, times

    async def ask(self, question: Question) -> Answer:
        if len(self.asked) < self._times:
            overlay = PolicyOverlay(timeout_seconds=200 - len(self.asked))
            command = PutPolicy(
                actor=ADMIN, scope="global", scope_id="", org_id="", operation_type="*", overlay=overlay,
                expected_revision=None,
            )  # fmt: skip
            await self._fleet.engine._writer.submit(command)
        return await super().ask(question)


async def lines(fleet: Fleet) -> list[str]:
    return [
        f"{line.result} {line.error_code}".strip()
        for line in await fleet.engine.reader.audit(0, 1000)
        if line.action == "operation.submit"
    ]


async def test_AZ_11_a_request_is_asked_about_once_and_leaves_one_line(tmp_path: Path) -> None:
    async with fleet_in(tmp_path, settings=ASKS) as fleet:
        await fleet.publish()
        node = await fleet.node("gpu-1")
        with pytest.raises(HostlerError, match="was not asked"):
            await fleet.execute(submit(node, idempotency_key="w"))
        fleet.engine.outside = judge = Judge()
        made = await fleet.execute(submit(node, idempotency_key="k"))
        assert (made.created, len(judge.asked)) == (True, 1)
        assert (await fleet.execute(submit(node, idempotency_key="k"))).created is False
        assert len(judge.asked) == 1, "the same request again is no new question"
        with pytest.raises(HostlerError, match="registered"):
            await fleet.execute(submit(node, version="v9", idempotency_key="x"))
        assert len(judge.asked) == 1, "what is refused anyhow is no question"
        judge.no = ("v1",)
        with pytest.raises(HostlerError, match="never"):
            await fleet.execute(submit(node, idempotency_key="y"))
        assert await lines(fleet) == [
            "refused policy_denied", "accepted", "refused unknown_definition", "refused policy_denied",
        ]  # fmt: skip


async def test_AZ_11_a_policy_that_changes_meanwhile_is_asked_about_again(tmp_path: Path) -> None:
    async with fleet_in(tmp_path, settings=ASKS) as fleet:
        await fleet.publish()
        node = await fleet.node("gpu-1")
        fleet.engine.outside = judge = Restless(fleet, 1)
        assert (await fleet.execute(submit(node))).created
        assert [question.policy.timeout_seconds for question in judge.asked] == [0, 200]
        fleet.engine.outside = restless = Restless(fleet, 99)
        restless.asked.extend(judge.asked)
        with pytest.raises(HostlerError) as caught:
            await fleet.execute(submit(node, idempotency_key="other"))
        assert caught.value.code == "policy_changed"


async def test_OD_35_the_same_commands_make_the_same_store_without_the_engine(tmp_path: Path) -> None:
    keys, taken = Keys(), list[Any]()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with fleet_in(tmp_path / "a", keys=keys, settings=ASKS, ids=CountingIds()) as fleet:
        inner = fleet.engine._writer.submit

        def written(command: Any) -> Any:
            taken.append(command)
            return inner(command)

        fleet.engine._writer.submit = written  # type: ignore[method-assign]
        fleet.engine.outside = Judge(no=("v2",))
        await fleet.publish()
        node = await fleet.node("gpu-1")
        await fleet.execute(submit(node))
        with pytest.raises(HostlerError):
            await fleet.execute(submit(node, version="v2", idempotency_key="k2"))
    assert sum(isinstance(command, WhatToAsk) for command in taken) == 2
    async with fleet_in(tmp_path / "b", keys=keys, settings=ASKS, ids=CountingIds()) as fleet:
        for command in taken:
            if not isinstance(command, WhatToAsk):
                try:
                    await fleet.execute(command)
                except HostlerError:
                    continue
    assert state_hash(tmp_path / "a" / "control.db") == state_hash(tmp_path / "b" / "control.db")
    assert all(msgspec.msgpack.encode(command.answer) for command in taken if getattr(command, "answer", None))
