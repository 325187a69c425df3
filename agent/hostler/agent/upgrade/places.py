"""Where versions of the agent lie, and which of them this process runs from."""

import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGED = "packaged"  # the name of slot zero


@dataclass(frozen=True)
class Places:
    """Attributes:
    base: root's, readable by all; holds the slots and what is known of them.
    packaged: the environment of the installed package.
    """

    base: Path = Path("/var/lib/hostler-agent")
    packaged: Path = Path("/usr/lib/hostler-agent")

    @property
    def slots(self) -> Path:
        return self.base / "slots"

    @property
    def current(self) -> Path:
        return self.base / "current"

    @property
    def before(self) -> Path:
        """Link to what ran before a trial, while there is one: known also where `trial.json` cannot be read."""
        return self.base / "before"

    @property
    def fetched(self) -> Path:
        """Where packages wait until they are unpacked; 0700."""
        return self.base / "fetched"

    @property
    def trial(self) -> Path:
        return self.base / "trial.json"

    @property
    def evidence(self) -> Path:
        return self.base / "evidence.json"

    @property
    def verdicts(self) -> Path:
        return self.base / "verdicts.json"

    @property
    def returned(self) -> Path:
        return self.base / "returned.json"

    @property
    def book(self) -> Path:
        return self.base / "book.json"

    @property
    def starts(self) -> Path:
        """How often the launcher has started each slot, during the trial or since one last ran for a while."""
        return self.base / "starts.json"

    @property
    def releases(self) -> Path:
        return self.base / "releases.json"

    def home(self, slot: str) -> Path:
        return self.packaged if slot == PACKAGED else self.slots / slot

    def running(self, prefix: str = sys.prefix) -> str:
        """The slot that a process with this `sys.prefix` runs from; "" for none of ours."""
        home = Path(prefix)
        if home == self.packaged:
            return PACKAGED
        return home.name if home.parent == self.slots else ""
