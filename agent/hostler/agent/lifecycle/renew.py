"""Renewal: at about half of its life the certificate is replaced, over the identity that is still good (PK-03).

Loop `Renewal.run`: waits for the moment, asks for a certificate of the same key, stores it, and tells the
session to dial again with it. A failure is tried again with full jitter; the old one stays in use (PK-04).
Past the certificate's end it recovers with the enrolled key; while it cannot, that is the node's drift (PK-05).
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from hostler.agent.lifecycle import identity
from hostler.base.clock import Clock, full_jitter
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.pki.renewal import renew_at_ms

_log = get_logger("hostler.agent.lifecycle.renew")
_BASE_S, _CAP_S = 5.0, 900.0
_LONGEST_WAIT_S = 60.0  # a machine that slept looks at its clock again
REPAIR_NEEDED = "certificate_only_repair_needed"


class Renewal:
    """Owns the identity in use. `renewed` is called with every new one."""

    def __init__(
        self,
        state_dir: Path,
        current: identity.Identity,
        renew: Callable[[identity.Identity], Awaitable[bytes]],
        clock: Clock,
        rng: random.Random,
        renewed: Callable[[identity.Identity], None],
        recover: Callable[[identity.Identity], Awaitable[bytes]],
    ) -> None:
        self._state_dir = state_dir
        self.current = current
        self._renew = renew
        self._clock = clock
        self._rng = rng
        self._renewed = renewed
        self._recover = recover
        self._failing = False
        self._due_ms = self._half_life_ms()
        self._sooner = asyncio.Event()

    @property
    def drift(self) -> str:
        """`certificate_only_repair_needed` while the certificate has run out and no new one is given."""
        return REPAIR_NEEDED if self._failing and self._expired() else ""

    def _expired(self) -> bool:
        return self.current.facts.not_after_ms <= self._clock.now_ms()

    def renew_within(self, seconds: float) -> None:
        """The CA that issued the present certificate is on its way out: at a random moment soon."""
        self._due_ms = min(self._due_ms, self._clock.now_ms() + int(1000 * self._rng.uniform(0, seconds)))
        self._sooner.set()

    async def run(self) -> None:
        failures = 0
        while True:
            wait_s = (self._due_ms - self._clock.now_ms()) / 1000
            if wait_s > 0:
                await self._wait(wait_s)
                continue
            try:
                await self.renew()
            except HostlerError as err:
                self._failing = True
                _log.warning("certificate.renewal_failed", error=err, failures=failures, drift=self.drift)
                pause_s = full_jitter(failures, base_s=_BASE_S, cap_s=_CAP_S, rng=self._rng)
                self._due_ms = self._clock.now_ms() + int(1000 * pause_s)
                failures += 1
                continue
            failures, self._failing = 0, False
            self._due_ms = self._half_life_ms()

    def _half_life_ms(self) -> int:
        return renew_at_ms(self.current.facts.not_before_ms, self.current.facts.not_after_ms, self._rng)

    async def _wait(self, seconds: float) -> None:
        self._sooner.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _LONGEST_WAIT_S)):
                await self._sooner.wait()

    async def renew(self) -> None:
        """Asks once. Raises what the control plane answered."""
        old = self.current
        chain = await (self._recover(old) if self._expired() else self._renew(old))
        facts = old.facts
        self.current = identity.save(self._state_dir, old.signer, chain, facts.org_id, facts.project_id)
        _log.info("certificate.renewed", serial=self.current.facts.serial)
        self._renewed(self.current)
