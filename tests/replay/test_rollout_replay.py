"""DM-07, ADR 0002: the commands of a rollout, executed again on a fresh store, leave every row as it was."""

import os
import pickle
from pathlib import Path

from replay.recording import RecordedFleet, RecordedIds, count_events, state_hash
from replay.test_goldens import same_keys

from hostler.control.kernel.agent_commands import CreateRollout, MoveRollout, RolloutSettings
from support.control import ADMIN, fleet_in
from support.mutant import ROOT, child_of_a_test
from support.rolling import AGENTS, NEW, Nodes

REPLAY = """
import asyncio, pickle, sys
from pathlib import Path
from replay.recording import ReplayedIds, replay
from replay.test_goldens import same_keys
from support.rolling import AGENTS
recorded, drawn = pickle.loads(Path(sys.argv[1]).read_bytes())
print(asyncio.run(replay(recorded, ReplayedIds(drawn), same_keys(), Path(sys.argv[2]), AGENTS)))
"""


async def told(directory: Path, story: Path) -> str:
    """A rollout that pauses by itself, turns back, is resumed, watched, aborted. → the state that it leaves."""
    directory.mkdir()
    ids = RecordedIds()
    async with fleet_in(directory, keys=same_keys(), ids=ids, settings=AGENTS) as opened:
        fleet = RecordedFleet(opened.engine, opened.keys, opened.clock)
        nodes = Nodes(fleet)
        await nodes.prepare("eu", "eu", "us", "us", "us")
        settings = RolloutSettings(safety_policy="force", boundary="region", canary=2, soak_seconds=30)
        made = CreateRollout(actor=ADMIN, rollout_id="rol_1", target_version=NEW, settings=settings, correlation_id="c")
        await fleet.execute(made)
        await nodes.work(nodes.nodes[0])
        await nodes.pass_time(30_000)
        await nodes.work()
        for action in ("resume", "abort"):
            moved = MoveRollout(actor=ADMIN, rollout_id="rol_1", action=action, retry_failed=True, correlation_id="c")
            await fleet.execute(moved)
            await nodes.work()
            await nodes.pass_time(30_000)
    story.write_bytes(pickle.dumps((fleet.recorded, ids.drawn)))
    return state_hash(directory / "control.db")


async def test_DM_07_a_replayed_rollout_ends_in_the_same_state(tmp_path: Path) -> None:
    first = await told(tmp_path / "first", tmp_path / "story")
    counted = count_events(tmp_path / "first" / "control.db")
    assert set(counted) >= {
        "rollout.created", "rollout.wave_started", "rollout.node_finished", "rollout.changed", "rollout.finished"
    }  # fmt: skip
    (tmp_path / "again").mkdir()
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "tests"), "PYTHONHASHSEED": "4711"}
    done = child_of_a_test(REPLAY, str(tmp_path / "story"), str(tmp_path / "again"), env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == first
