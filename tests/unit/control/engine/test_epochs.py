"""The store's epoch and the keyset's: only the root says which memory counts (P1)."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.control.engine import Engine
from hostler.control.kernel.commands import RecoverEpoch
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keyset import parse_keyset
from hostler.pki.rotation import open_epoch, successor
from hostler.pki.trust import TrustStore
from support.control import ADMIN, NOW, FrozenClock, fleet_in
from support.keys import Keys


def later_epoch(keys: Keys) -> TrustStore:
    trust = keys.trust()
    current = parse_keyset(dsse.from_json(trust.state.keyset).payload)
    trust.update_keyset(sign_keyset(open_epoch(successor(current, NOW)), [keys.root]), NOW)
    return trust


async def opened(path: Path, keys: Keys, trust: TrustStore, *, recovering: bool = False) -> Engine:
    return await Engine.open(
        store_path=path, trust=trust, dispatch_signer=keys.dispatch, clock=FrozenClock(), recovering=recovering
    )


async def test_P1_store_and_keyset_must_be_of_one_epoch_whichever_is_older(tmp_path: Path) -> None:
    keys = Keys()
    async with fleet_in(tmp_path, keys=keys):
        pass
    path = tmp_path / "control.db"
    with pytest.raises(HostlerError) as caught:
        await opened(path, keys, later_epoch(keys))
    assert caught.value.code == "controller_rollback"
    assert "recover" in caught.value.hint
    engine = await opened(path, keys, later_epoch(keys), recovering=True)
    assert await engine.execute(RecoverEpoch(actor=ADMIN, control_epoch=2)) == 0
    await engine.close()
    engine = await opened(path, keys, later_epoch(keys))
    assert engine.control_epoch == 2
    await engine.close()
