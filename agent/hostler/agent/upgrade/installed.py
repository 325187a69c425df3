"""What the steps of an upgrade need of the agent that runs them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.agent.upgrade.places import Places

if TYPE_CHECKING:
    from hostler.pki.trust import TrustStore

TRIAL_UNIT = "hostler-trial.service"
AGENT_UNIT = "hostler-agent.service"


@dataclass(frozen=True, eq=False)
class Installed:
    """Attributes:
    running: the slot of this process; "" where it runs from no package.
    trust: the trust store in force.
    serial: of the certificate in use.
    """

    places: Places
    running: str
    trust: "Callable[[], TrustStore]"
    serial: Callable[[], str]
    staging: asyncio.Lock = field(default_factory=asyncio.Lock)
