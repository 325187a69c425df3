"""What an agent does about its own slot once it has run for a while, and when it is stopped in order.

The launcher counts starts until then, and passes over a slot that failed too many (`upgrade.launch`).
"""

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from hostler.agent.upgrade.places import PACKAGED
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

if TYPE_CHECKING:
    from hostler.agent.daemon import Daemon

_log = get_logger("hostler.agent.steady")
STEADY_S = 60.0


async def when_steady(agent: "Daemon") -> None:
    """Loop: once, after a while."""
    installed = agent.installed
    if not installed.running:
        return
    await asyncio.sleep(STEADY_S)
    try:
        left = await asyncio.to_thread(_look, agent)
    except (HostlerError, OSError) as err:
        _log.error("slot.not_settled", error=err)
        return
    if left:
        os.kill(os.getpid(), signal.SIGTERM)  # in order; systemd starts what the link names now
    agent.report.look_again()


def _look(agent: "Daemon") -> bool:
    """Whether this slot was left for another: its network process has never come, and its files are not whole."""
    from hostler.agent.upgrade import slots, stand_in

    places, running, now_ms = agent.installed.places, agent.installed.running, agent.clock.now_ms()
    if agent.outside.uid < 0 and running != PACKAGED and not places.trial.exists():
        damage = slots.damage(places, running)
        if damage:
            stand_in.leave(places, running, stand_in.refuge(places, running), damage, now_ms)
            return True
    stand_in.settle(places, running, now_ms)
    return False


def when_stopped(agent: "Daemon") -> None:
    """A slot that was stopped in order has not failed."""
    if agent.installed.running:
        from hostler.agent.upgrade.stand_in import forget_starts

        forget_starts(agent.installed.places)
