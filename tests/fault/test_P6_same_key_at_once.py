"""P6: one idempotency key from many at once makes one operation, and another body is a conflict."""

import asyncio

from hostler.base.errors import HostlerError
from hostler.control.kernel.commands import TargetSelector
from support.control import fleet_in, submit


async def test_P6_RT_01_a_hundred_concurrent_submits_with_one_key_make_one_operation(tmp_path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        node = await fleet.node()
        command = submit(node, idempotency_key="same")
        made = await asyncio.gather(*(fleet.execute(command) for _ in range(100)))
        assert len({each.operation_id for each in made}) == 1
        assert sum(each.created for each in made) == 1
        page = await fleet.engine.reader.operations("train")
        assert len(page.items) == 1
        assert len(await fleet.events(type_="operation.requested")) == 1
        assert len(await fleet.delivered(node)) == 1


async def test_P6_RT_01_of_two_bodies_under_one_key_exactly_one_wins(tmp_path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        nodes = [await fleet.node(f"gpu-{n}") for n in range(2)]
        commands = [
            submit(
                idempotency_key="same",
                target_selector=TargetSelector(nodes=(nodes[number % 2].node_id,)),
            )
            for number in range(100)
        ]
        outcomes = await asyncio.gather(*(fleet.execute(each) for each in commands), return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, HostlerError)]
        assert len(refused) == 50
        assert {each.code for each in refused} == {"idempotency_mismatch"}
        assert len({each.operation_id for each in outcomes if not isinstance(each, BaseException)}) == 1
        assert len((await fleet.engine.reader.operations("train")).items) == 1
