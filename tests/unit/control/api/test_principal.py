"""Bearer tokens: looked up by hash, remembered briefly, forgotten at once."""

import pytest

from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError
from hostler.control.api.principal import Authenticator
from hostler.control.store.records import Principal


class Lookup:
    """Knows one token and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known = {sha256_hex(b"good")}

    async def __call__(self, digest: str) -> Principal | None:
        self.asked.append(digest)
        if digest not in self.known:
            return None
        return Principal(
            name="ann", role="project_admin", org_id="acme", project_id="train",
            state="active", expires_at_ms=1, created_at_ms=0,
        )  # fmt: skip


async def test_a_known_token_is_looked_up_by_its_hash_once() -> None:
    lookup = Lookup()
    authenticator = Authenticator(lookup)
    for _ in range(3):
        assert (await authenticator.of("Bearer good")).name == "ann"
    assert lookup.asked == [sha256_hex(b"good")]


async def test_after_forget_everybody_is_asked_for_again() -> None:
    lookup = Lookup()
    authenticator = Authenticator(lookup)
    await authenticator.of("Bearer good")
    lookup.known.clear()
    authenticator.forget()
    with pytest.raises(HostlerError, match="not known") as raised:
        await authenticator.of("Bearer good")
    assert raised.value.code == "unauthenticated"


@pytest.mark.parametrize("header", ["", "good", "Basic good", "Bearer", "Bearer ", "Bearer " + "x" * 600, "Bearer bad"])
async def test_anything_else_is_nobody(header: str) -> None:
    with pytest.raises(HostlerError) as raised:
        await Authenticator(Lookup()).of(header)
    assert raised.value.code == "unauthenticated"
    assert "bad" not in raised.value.message.split()


async def test_the_memory_of_tokens_is_bounded() -> None:
    lookup = Lookup()
    authenticator = Authenticator(lookup)
    for number in range(5_000):
        lookup.known.add(sha256_hex(str(number).encode()))
        await authenticator.of(f"Bearer {number}")
    assert len(authenticator._cache) <= 4096
