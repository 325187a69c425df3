"""Makes a checkpoint over all receipt chains when one has grown. Reads the store, emits `MakeCheckpoint`.

The tree is built here, off the writer's thread; only the new heads and the root go through it.
"""

import asyncio

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.commands import GrownChain, MakeCheckpoint
from hostler.control.store.checkpoints import MAX_RECEIPTS
from hostler.pki import dsse
from hostler.pki.chain import ChainHead, advance
from hostler.pki.checkpoint import Head, tree_of

_log = get_logger("hostler.control.loops.checkpoints")


async def run(engine: Engine, every_s: float) -> None:
    """One look every `every_s` seconds; a look that finds nothing new makes nothing."""
    maker = CheckpointMaker(engine)
    while True:
        await asyncio.sleep(every_s)
        made = await maker.make()
        if made is not None:
            _log.info("checkpoint.made", index=made)


class CheckpointMaker:
    """Holds every chain's head as of the last checkpoint; nobody else may make checkpoints on this engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heads: dict[str, Head] | None = None
        self._index = -1
        self._signed_by = ""
        self._looked: dict[str, int] = {}

    async def make(self) -> int | None:
        """The index of a new checkpoint, None when nothing has changed since the last one."""
        known = await self._known()
        grown = await self._grown(known)
        if not grown and self._signed_by in ("", self._engine.dispatch_keyid):
            return None
        heads = known | {head.node_id: head for head in grown}
        tree, _ = await asyncio.to_thread(tree_of, list(heads.values()))
        command = MakeCheckpoint(
            index=self._index + 1,
            heads=tuple(GrownChain(head.node_id, head.length, head.digest) for head in grown),
            root=tree.root.hex(),
            nodes=tree.size,
            receipts=sum(head.length for head in heads.values()),
        )
        self._index = await self._engine.execute(command)
        self._heads, self._signed_by = heads, self._engine.dispatch_keyid
        return self._index

    async def _known(self) -> dict[str, Head]:
        """Heads as of the last checkpoint; read once, then remembered."""
        if self._heads is None:
            newest = await self._engine.reader.newest_checkpoint()
            if newest is not None:
                self._index = newest.index
                self._signed_by = dsse.from_json(newest.envelope).signatures[0].keyid
            self._heads = {
                row.node_id: Head(row.node_id, row.length, row.digest)
                for row in await self._engine.reader.heads_as_of(self._index)
            }
        return self._heads

    async def _grown(self, known: dict[str, Head]) -> list[Head]:
        """Heads that have moved. A node is looked at again only when it has sent another receipt: a chain with a
        hole stands still until the hole is filled."""
        found: list[Head] = []
        for node_id, last in (await self._engine.reader.chains_reached()).items():
            if self._looked.get(node_id) == last:
                continue
            head = known.get(node_id, Head(node_id, 0, ""))
            receipts = await self._engine.reader.receipts_from(node_id, head.length)
            reached = await asyncio.to_thread(advance, ChainHead(head.length, head.digest), node_id, receipts)
            if reached.next_index > head.length:
                found.append(Head(node_id, reached.next_index, reached.digest))
            if len(receipts) < MAX_RECEIPTS:
                self._looked[node_id] = last
        return found
