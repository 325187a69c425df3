"""What a node trusts, over updates and restarts: marks only rise, and a new keyset judges what the old one allowed."""

from pathlib import Path
from typing import Any

import pytest

from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.trust import Trusted, trust_path
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, parse_keyset
from hostler.pki.rotation import open_epoch, replace_role, successor
from hostler.pki.trust_files import load_trust, save_trust
from hostler.wire.node import CatalogUpdate, KeysetUpdate
from support.builders import catalog_bundle, definition
from support.control import FrozenClock
from support.keys import Keys

KEYS = Keys()


class Node:
    """A journal and a trust file, opened again as after a restart."""

    def __init__(self, home: Path) -> None:
        self.home = home
        save_trust(trust_path(home), KEYS.state())

    async def start(self) -> Trusted:
        self.journal = await Journal.open(self.home / "journal.db", FrozenClock())
        trusted = Trusted(self.home, self.journal, FrozenClock())
        await trusted.load()
        return trusted

    async def restart(self) -> Trusted:
        await self.journal.close()
        return await self.start()


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    made = Node(tmp_path)
    yield made
    await made.journal.close()


def update(version: int, signer: Any = None, **changes: Any) -> CatalogUpdate:
    signers = [signer] if signer else ()
    return CatalogUpdate(*catalog_bundle(KEYS, [definition(**changes)], version=version, signers=signers))


def keysets(*changes: Any) -> list[KeysetUpdate]:
    """Successive keysets, each made by a function from the one before."""
    current: Keyset = parse_keyset(dsse.from_json(KEYS.state().keyset).payload)
    made = []
    for change in changes:
        current = change(successor(current, current.issued_ms))
        made.append(KeysetUpdate(sign_keyset(current, [KEYS.root])))
    return made


async def test_T8_the_catalog_mark_outlives_the_catalog_and_the_process(node: Node) -> None:
    trusted = await node.start()
    assert await trusted.take_catalog(update(5))
    trusted = await node.restart()
    assert trusted.catalog_version == 5
    assert not await trusted.take_catalog(update(4))
    assert trusted.refused == "catalog_rollback"
    assert load_trust(trust_path(node.home)).catalog_version == 5


async def test_T8_one_version_has_one_content(node: Node) -> None:
    trusted = await node.start()
    assert await trusted.take_catalog(update(5))
    assert not await trusted.take_catalog(update(5, description="another"))
    assert trusted.refused == "catalog_rollback"
    assert await trusted.take_catalog(update(5)), "the same again is in order"


async def test_T11_a_keyset_without_the_catalogs_key_takes_the_catalog_away_at_once(node: Node) -> None:
    trusted, fresh = await node.start(), new_ed25519()
    assert await trusted.take_catalog(update(5))
    (next_,) = keysets(lambda keyset: replace_role(keyset, KeyRole.CATALOG, (fresh.public,)))
    assert await trusted.take_keyset(next_)
    assert (trusted.catalog, trusted.refused) == (None, "untrusted_key")
    assert await trusted.take_catalog(update(2, fresh)), "and the mark starts again (T8)"
    assert (await node.restart()).catalog_version == 2


async def test_P1_an_epoch_comes_with_its_keyset_and_with_nothing_else(node: Node) -> None:
    trusted = await node.start()
    assert node.journal.control_epoch == 1
    await node.journal.hold()
    plain, opening = keysets(lambda keyset: keyset, open_epoch)
    assert await trusted.take_keyset(plain)
    assert (node.journal.control_epoch, node.journal.held) == (1, True)
    assert await trusted.take_keyset(opening)
    assert (node.journal.control_epoch, node.journal.held) == (2, False)
    await node.restart()
    assert (node.journal.control_epoch, node.journal.held) == (2, False)


async def test_a_refused_keyset_leaves_the_old_one(node: Node) -> None:
    trusted = await node.start()
    assert not await trusted.take_keyset(KeysetUpdate(b"{}"))
    assert (trusted.store.keyset.version, trusted.refused) == (1, "malformed_envelope")
