"""RD-05: what a node starts with is signed like anything else, and an enrolment stands whatever comes of it."""

from pathlib import Path

import pytest

from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.provision import provision, resolver_folder
from hostler.agent.lifecycle.trust import Trusted, trust_path
from hostler.agent.resolver.resolver import Resolver
from hostler.pki.trust_files import load_trust, save_trust
from hostler.wire.node import CatalogUpdate
from support import builders, resolving
from support.clocks import StillClock
from support.keys import Keys
from support.resolving import KIND

KEYS = Keys()
NVIDIA = {"gpu.vendor": "nvidia"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """As an enrolment leaves it before it provisions."""
    save_trust(trust_path(tmp_path), KEYS.trust().state)
    return tmp_path


def update(version: int = 1, name: str = "default", keys: Keys = KEYS) -> CatalogUpdate:
    resolvers = {name: resolving.sample()}
    made = builders.catalog_bundle(keys, (), resolving.commands(), resolvers=resolvers, version=version)
    return CatalogUpdate(*made)


async def resolved(state: Path) -> tuple[str, str]:
    """(origin, command profile or error code), as an agent that starts here sees it."""
    journal = await Journal.open(state / "journal.db", StillClock())
    try:
        trusted = Trusted(state, journal, StillClock())
        await trusted.load()
        resolver = Resolver(resolver_folder(state), journal, lambda: trusted.catalog, lambda: NVIDIA)
        origin = resolver.active.origin if resolver.active else ""
        try:
            return origin, resolver.resolve(KIND).command.id
        except Exception as err:
            return origin, getattr(err, "code", "")
    finally:
        await journal.close()


async def test_RD_05_a_node_can_resolve_before_it_has_ever_been_connected(state: Path) -> None:
    assert await provision(state, update(), StillClock())
    assert await resolved(state) == ("enrolment", "nvidia_smi_health")
    assert load_trust(trust_path(state)).catalog_version == 1


@pytest.mark.parametrize(
    "sent",
    [
        CatalogUpdate(b"", ()),
        CatalogUpdate(b"{}", (b"junk",)),
        update(keys=Keys()),
        CatalogUpdate(update().manifest, update().documents[:-1]),
        update(name="other"),
    ],
    ids=["empty", "junk", "foreign-signature", "document-missing", "no-default"],
)
async def test_RD_05_what_is_not_signed_or_not_there_is_not_used_and_raises_nothing(
    state: Path, sent: CatalogUpdate
) -> None:
    assert not await provision(state, sent, StillClock())
    assert await resolved(state) == ("", "no_resolver")


async def test_RD_04_enrolling_again_at_an_older_control_plane_brings_nothing_older_back(state: Path) -> None:
    await provision(state, update(5), StillClock())
    assert not await provision(state, update(4), StillClock())
    assert load_trust(trust_path(state)).catalog_version == 5
