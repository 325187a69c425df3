"""Calls of tasks share one channel; another certificate is another one, and the old one lasts as long as its calls."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from hostler.agent.outside import serve
from hostler.agent.outside.frames import Ask, Tls


class Channel:
    def __init__(self) -> None:
        self.closed = False

    async def close(self, _: None) -> None:
        self.closed = True


def ask(chain: bytes = b"one", address: str = "a:1") -> Ask:
    tls = Tls(trust_domain="d", ca_pems=("ca",), key_pem=b"k", chain_pem=chain)
    return Ask(call=1, tls=tls, address=address, method="TaskCall", request=b"", timeout_s=1)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Channel]:
    made: list[Channel] = []

    def dial(*_: Any) -> Channel:
        made.append(Channel())
        return made[-1]

    monkeypatch.setattr(serve, "dial", dial)
    return made


async def test_calls_share_a_channel_and_a_renewed_certificate_gets_a_new_one(dialled: list[Channel]) -> None:
    kept = serve.Kept()
    for _ in range(3):
        async with kept.channel(ask()):
            pass
    assert len(dialled) == 1
    async with kept.channel(ask(b"two")) as channel:
        assert channel is dialled[1]
    assert (dialled[0].closed, dialled[1].closed) == (True, False)
    async with kept.channel(ask(b"two", "b:2")):
        pass
    await kept.close()
    assert [channel.closed for channel in dialled] == [True, True, True]


async def test_a_call_that_waits_keeps_its_channel_until_it_has_ended(dialled: list[Channel]) -> None:
    kept = serve.Kept()
    async with AsyncExitStack() as waiting:
        await waiting.enter_async_context(kept.channel(ask()))
        async with kept.channel(ask(b"two")):
            assert not dialled[0].closed
        await asyncio.sleep(0)
        assert not dialled[0].closed
    assert dialled[0].closed
    assert not dialled[1].closed
