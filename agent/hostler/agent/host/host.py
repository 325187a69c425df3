"""Host: the doors to the operating system, each loaded when it is first used."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.clock import Clock, SystemClock

if TYPE_CHECKING:  # a door loads on first use: an idle agent carries none of them
    from hostler.agent.host.accounts import Accounts
    from hostler.agent.host.block_devices import BlockDevices
    from hostler.agent.host.blocking import Blocking
    from hostler.agent.host.disks import Disks
    from hostler.agent.host.eviction import Eviction
    from hostler.agent.host.execute import Execute
    from hostler.agent.host.files import Files
    from hostler.agent.host.holdings import Holdings
    from hostler.agent.host.net import Net
    from hostler.agent.host.packages import Packages
    from hostler.agent.host.processes import Processes
    from hostler.agent.host.pythons import Pythons
    from hostler.agent.host.sampling import Sampling
    from hostler.agent.host.systemd import Systemd
    from hostler.agent.host.tenant_trees import TenantTrees
    from hostler.agent.host.trees import Trees


@dataclass(frozen=True)
class Host:
    """What step kinds may touch the machine with.

    Attributes:
        root: what stands before every path a task names. Commands are not moved: they run from the
            real file system, because there is no chroot here.
        write_prefixes: where files may be written; whole path components.
        deny_prefixes: where they may not, whatever `write_prefixes` says.
        spool: private directory for the records of running commands.
        allocations: private directory for what is kept of each allocation.
        parallel: how many commands may run at once.
        fetch: what the operator decided about transfers.
        adopt_orphans: for the daemon only: every child of this process that is no helper is ended.
        spared: process ids of other children, which are not.
    """

    root: Path = Path("/")
    clock: Clock = field(default_factory=SystemClock)
    write_prefixes: tuple[str, ...] = ("/",)
    deny_prefixes: tuple[str, ...] = ()
    spool: Path = Path("/var/lib/hostler/spool")
    allocations: Path = Path("/var/lib/hostler/allocations")
    parallel: int = 8
    fetch: FetchSettings = field(default_factory=FetchSettings)
    adopt_orphans: bool = False
    spared: Callable[[], frozenset[int]] = frozenset

    @property
    def is_root(self) -> bool:
        """Whether this agent may become other users, and change what only root may."""
        return os.geteuid() == 0

    @property
    def is_whole_machine(self) -> bool:
        """Whether the root is the machine's own, so that its name services answer for it."""
        return self.root == Path("/")

    def path(self, named: str) -> Path:
        """Where a path that a task names really lies. Touches nothing and promises nothing about
        symbolic links: read and write through `files`."""
        return self.root / named.lstrip("/")

    @property
    def hung(self) -> int:
        """Commands that SIGKILL did not end and threads that did not come back (K5)."""
        commands = self.execute.hung if "execute" in self.__dict__ else 0
        return commands + (self.blocking.hanging if "blocking" in self.__dict__ else 0)

    @cached_property
    def blocking(self) -> "Blocking":
        from hostler.agent.host.blocking import Blocking

        return Blocking()

    @cached_property
    def files(self) -> "Files":
        from hostler.agent.host.files import Files

        return Files(self.root, self.write_prefixes, self.deny_prefixes)

    @cached_property
    def execute(self) -> "Execute":
        from hostler.agent.host.execute import Execute

        door = Execute(self.spool, self.clock, self.parallel)
        if self.adopt_orphans:
            door.adopt_orphans(self.spared)
        return door

    @cached_property
    def trees(self) -> "Trees":
        from hostler.agent.host.trees import Trees

        return Trees(self.root, self.files)

    @cached_property
    def packages(self) -> "Packages":
        from hostler.agent.host.packages import Packages

        return Packages(self.root, self.execute, self.fetch.ca_file)

    @cached_property
    def pythons(self) -> "Pythons":
        from hostler.agent.host.pythons import Pythons

        return Pythons(self.execute, self.fetch.ca_file)

    @cached_property
    def net(self) -> "Net":
        from hostler.agent.host.net import Net

        return Net(self.root)

    @cached_property
    def systemd(self) -> "Systemd":
        from hostler.agent.host.systemd import Systemd

        return Systemd(self.root)

    @cached_property
    def processes(self) -> "Processes":
        from hostler.agent.host.processes import Processes

        return Processes(self.root)

    @cached_property
    def sampling(self) -> "Sampling":
        from hostler.agent.host.sampling import Sampling

        return Sampling(self.root)

    @cached_property
    def disks(self) -> "Disks":
        from hostler.agent.host.disks import Disks

        return Disks(self.root)

    @cached_property
    def accounts(self) -> "Accounts":
        from hostler.agent.host.accounts import Accounts

        return Accounts(self.root)

    @cached_property
    def eviction(self) -> "Eviction":
        from hostler.agent.host.eviction import Eviction

        return Eviction(self.root)

    @cached_property
    def tenant_trees(self) -> "TenantTrees":
        from hostler.agent.host.tenant_trees import TenantTrees

        return TenantTrees(self.root, self.files)

    @cached_property
    def block_devices(self) -> "BlockDevices":
        from hostler.agent.host.block_devices import BlockDevices

        return BlockDevices(self.root)

    @cached_property
    def holdings(self) -> "Holdings":
        from hostler.agent.host.holdings import Holdings

        return Holdings(self.allocations)

    def forget_run(self, task_id: str, step_index: int) -> None:
        """The step's outcome is durable: what was kept about its command for a restart can go."""
        if "execute" in self.__dict__:
            self.execute.forget(task_id, step_index)

    async def close(self) -> None:
        """Ends every command that still runs, and the helpers."""
        if "execute" in self.__dict__:
            await self.execute.close()
