"""Keysets published while the control plane runs: believed only from the root, and never one that would cut it off."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.commands import PublishKeyset
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, parse_keyset
from hostler.pki.rotation import introduce, open_epoch, replace_role, successor
from support.control import ADMIN, NOW, Fleet, fleet_in


def present(fleet: Fleet) -> Keyset:
    return parse_keyset(dsse.from_json(fleet.engine.trust.state.keyset).payload)


async def publish(fleet: Fleet, keyset: Keyset, *signers: Any) -> Any:
    data = sign_keyset(keyset, list(signers) or [fleet.keys.root])
    return await fleet.execute(PublishKeyset(actor=ADMIN, keyset=data))


async def refused(fleet: Fleet, keyset: Keyset, *signers: Any) -> str:
    before = fleet.engine.trust.state.keyset
    with pytest.raises(HostlerError) as caught:
        await publish(fleet, keyset, *signers)
    assert fleet.engine.trust.state.keyset == before, "nothing moved"
    return caught.value.code


async def test_PK_08_a_keyset_of_the_root_is_in_force_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        keys = fleet.keys
        fresh = new_ed25519()
        await publish(fleet, introduce(successor(present(fleet), NOW), KeyRole.DISPATCH, fresh.public))
        assert fleet.engine.trust.keyset.version == 2
        assert [version for version, _ in fleet.engine.published.keysets] == [1, 2]
        data = fleet.engine.trust.state.keyset
        await fleet.execute(PublishKeyset(actor=ADMIN, keyset=data))
        assert len(fleet.engine.published.keysets) == 2, "the same again is in order, and nothing new"
    async with fleet_in(tmp_path, keys=keys) as fleet:
        assert fleet.engine.trust.keyset.version == 2, "from the store, where the file is older"


async def test_PK_09_a_keyset_of_anybody_else_an_older_and_an_expired_one_are_refused(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        following = successor(present(fleet), NOW)
        assert await refused(fleet, following, fleet.keys.dispatch) == "untrusted_key"
        assert await refused(fleet, msgspec.structs.replace(following, expires_ms=NOW)) == "keyset_stale"
        assert (
            await refused(fleet, msgspec.structs.replace(following, version=1, issued_ms=NOW + 1)) == "keyset_rollback"
        )


async def test_a_keyset_that_would_cut_this_control_plane_off_is_refused(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        following = successor(present(fleet), NOW)
        without_our_key = replace_role(following, KeyRole.DISPATCH, (new_ed25519().public,))
        assert await refused(fleet, without_our_key) == "untrusted_key"
        await publish(fleet, msgspec.structs.replace(following, ca_certificates=("our ca",)))
        fleet.engine.published.ca_in_use = frozenset(("our ca",))
        without_our_ca = msgspec.structs.replace(successor(present(fleet), NOW), ca_certificates=())
        assert await refused(fleet, without_our_ca) == "certificate_invalid"


async def test_P1_an_epoch_is_not_opened_in_passing(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        assert await refused(fleet, open_epoch(successor(present(fleet), NOW))) == "controller_rollback"


async def test_T8_a_catalog_numbered_sky_high_is_left_behind_with_the_keys_that_signed_it(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish(version=2**53)
        with pytest.raises(HostlerError) as caught:
            await fleet.publish(version=2)
        assert caught.value.code == "catalog_rollback"
        fresh = new_ed25519()
        await publish(fleet, replace_role(successor(present(fleet), NOW), KeyRole.CATALOG, (fresh.public,)))
        fleet.keys.catalog = fresh
        fleet.clock.move(1)
        await fleet.publish(version=2)
        stored = await fleet.engine.reader.catalog()
        assert stored is not None
        assert stored[0] == 2, "the newest is the one in force, not the highest"
        with pytest.raises(HostlerError) as caught:
            await fleet.publish(version=2**53)
        assert caught.value.code == "catalog_rollback"
