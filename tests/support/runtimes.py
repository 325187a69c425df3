"""What the conformance suite needs of any runtime: one that runs, an image in it, and its daemon's switch."""

import asyncio
import itertools
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.runtime import Line, Status
from hostler.agent.containers.spec import ATTEMPT, MAIN_PHASE, NODE, PHASE, TASK, Bind, ContainerSpec, name_of
from hostler.base.errors import HostlerError
from support import containerd as support_containerd

T = TypeVar("T")
_numbers = itertools.count(1)
NODE_ID = "nod_test"


@dataclass
class Bed:
    """
    Attributes:
        restart: ends the daemon without notice and starts it again; nothing where there is none.
    """

    runtime: Any
    image: str
    restart: Callable[[], None] = lambda: None
    fixed: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def spec(self, script: str, **changed: Any) -> ContainerSpec:
        name = f"t{os.getpid()}-{next(_numbers)}"
        labels = {ATTEMPT: name, TASK: f"task-{name}", PHASE: MAIN_PHASE, NODE: NODE_ID}
        spec = ContainerSpec(
            name=name_of(name, MAIN_PHASE),
            image=self.image,
            command=("/bin/busybox", "sh", "-c", script),
            environment={"PATH": "/bin:/usr/bin"},
            labels=labels,
            host_network=True,
        )
        return replace(spec, **self.fixed | changed)

    async def start(self, script: str, **changed: Any) -> str:
        made: str = await self.runtime.create(self.spec(script, **changed))
        self.names.append(made)
        await self.runtime.start(made)
        return made

    async def run(self, script: str, **changed: Any) -> Status:
        """To its end, and away."""
        made = await self.start(script, **changed)
        ended: Status = await self.runtime.wait(made)
        await self.runtime.remove(made)
        return ended

    async def output(self, container: str, cursor: str = "", *, follow: bool = True) -> list[Line]:
        return [line async for line in self.runtime.logs(container, cursor, follow=follow)]

    async def clear(self) -> None:
        for name in self.names:
            await self.runtime.stop(name, 0)
            await self.runtime.remove(name)
        await self.runtime.close()


def runtime_on(daemon: support_containerd.Containerd) -> Containerd:
    """As another agent beside it would have it."""
    return Containerd(daemon.socket, daemon.place / "logs", daemon.place / "run", daemon.place / "shm")


@asynccontextmanager
async def bed_on(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    made = Bed(runtime_on(daemon), support_containerd.IMAGE, daemon.restart)
    try:
        yield made
    finally:
        await made.clear()


@contextmanager
def shared_directory(mode: int = 0o755) -> Iterator[Path]:
    """One that containers see under the same name, whoever they run as."""
    made = Path("/var/tmp") / f"hostler-shared-{secrets.token_hex(4)}"
    made.mkdir()
    made.chmod(mode)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@dataclass(frozen=True)
class Gate:
    """What a container waits for, so that it does not go on before the test has looked."""

    place: Path

    @property
    def binds(self) -> tuple[Bind, ...]:
        return (Bind(str(self.place), str(self.place)),)

    @property
    def wait(self) -> str:
        """A command of its script."""
        return f"while [ ! -e {self.place}/open ]; do sleep 0.02; done"

    def open(self) -> None:
        (self.place / "open").touch()


async def until(said: Callable[[], Any], limit_s: float = 10.0) -> Any:
    async with asyncio.timeout(limit_s):
        while not (found := await said()):
            await asyncio.sleep(0.02)
        return found


async def answered(call: Awaitable[T]) -> T | None:
    """None while its daemon is not back."""
    try:
        return await call
    except HostlerError as err:
        if err.code != "runtime_unavailable":
            raise
        return None


async def has_said(bed: Bed, container: str, text: str) -> None:
    async def there() -> bool:
        return text in [line.text for line in await bed.output(container, follow=False)]

    assert await until(there)


async def none_called(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().decode(errors="replace").split("\0"):
                return False
        except OSError:
            continue
    return True
