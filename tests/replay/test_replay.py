"""One writer, one log (ADR 0002): the recorded commands, executed again elsewhere, leave the same state and events.

HOSTLER_SLOW=1 pytest -s tests/replay/test_replay.py        # 100 000 events, some minutes
"""

import os
import pickle
import time
from pathlib import Path

import pytest
from replay.history import Life
from replay.recording import RecordedFleet, RecordedIds, ReplayedIds, count_events, state_hash
from replay.test_goldens import same_keys

from conftest import need_slow
from hostler.control.kernel.event_types import EVENT_TYPES
from support.control import fleet_in
from support.mutant import ROOT, child_of_a_test

REPLAY = """
import asyncio, pickle, sys
from pathlib import Path
from replay.recording import ReplayedIds, replay
from replay.test_goldens import same_keys
recorded, drawn = pickle.loads(Path(sys.argv[1]).read_bytes())
print(asyncio.run(replay(recorded, ReplayedIds(drawn), same_keys(), Path(sys.argv[2]))))
"""


async def lived(directory: Path, events: int, seed: int) -> tuple[RecordedFleet, RecordedIds]:
    """A life that is at least so many events long, in a store of its own."""
    directory.mkdir()
    ids = RecordedIds()
    async with fleet_in(directory, keys=same_keys(), ids=ids) as opened:
        fleet = RecordedFleet(opened.engine, opened.keys, opened.clock)
        life = Life(fleet, seed)
        await life.begin()
        while sum(count_events(directory / "control.db").values()) < events:
            await life.go_on(200)
    return fleet, ids


def replayed(story: Path, directory: Path, hash_seed: str, timeout_s: float) -> str:
    """In a process of its own, where sets have another order."""
    directory.mkdir()
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "tests"), "PYTHONHASHSEED": hash_seed}
    done = child_of_a_test(REPLAY, str(story), str(directory), env=environment, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def replays(tmp_path: Path, events: int, timeout_s: float) -> None:
    began = time.monotonic()
    fleet, ids = await lived(tmp_path / "first", events, seed=events)
    counted = count_events(tmp_path / "first" / "control.db")
    story = tmp_path / "story"
    story.write_bytes(pickle.dumps((fleet.recorded, ids.drawn)))
    told = time.monotonic()
    first = state_hash(tmp_path / "first" / "control.db")
    assert replayed(story, tmp_path / "again", "4711", timeout_s) == first
    done = time.monotonic()
    print(
        f"\n{sum(counted.values())} events of {len(counted)} types, {len(fleet.recorded)} commands:"
        f" told in {told - began:.0f} s, replayed in {done - told:.0f} s, state {first[:16]}"
    )
    assert set(counted) >= {
        "operation.completed", "operation.failed", "operation.canceled", "operation.retried", "node.lost",
        "node.revoked", "node.enrolled", "policy.changed", "task.signed_again", "task.finished",
    }  # fmt: skip
    assert {type_ for type_ in counted if not type_.endswith("_refused")} <= set(EVENT_TYPES)


async def test_EV_10_DM_12_a_replayed_log_ends_in_the_same_state(tmp_path) -> None:
    await replays(tmp_path, 8_000, 60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_EV_10_DM_12_a_hundred_thousand_events_replayed_end_in_the_same_state(tmp_path) -> None:
    need_slow("a hundred thousand events take minutes")
    await replays(tmp_path, 100_000, 900)


async def test_the_digest_of_the_state_sees_one_changed_byte_anywhere(tmp_path) -> None:
    import sqlite3

    await lived(tmp_path / "first", 200, seed=1)
    store = tmp_path / "first" / "control.db"
    before = state_hash(store)
    assert state_hash(store) == before
    for change in (
        "UPDATE events SET body = body || ' ' WHERE id = 7",
        "UPDATE node_cursors SET outbox_seq = outbox_seq + 1 WHERE node_id = (SELECT min(node_id) FROM node_cursors)",
        "DELETE FROM receipts WHERE chain_index = 0",
    ):
        db = sqlite3.connect(store)
        assert db.execute(change).rowcount > 0
        db.commit()
        db.close()
        after = state_hash(store)
        assert after != before
        before = after


def test_a_replay_that_draws_other_ids_is_told_apart() -> None:
    """The replay does not make ids up."""
    with pytest.raises(AssertionError, match="was drawn where op_1 was"):
        ReplayedIds(["op_1"]).new("tsk", 0)
