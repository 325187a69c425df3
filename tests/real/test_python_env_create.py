"""SK-06: a real interpreter, its venv and its pip, against an index on loopback."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome, StepContext, Truth
from hostler.agent.steps.python_env_create import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.python import EnvCreate
from hostler.wire.task import Policy
from support.blob_server import Blob, BlobServer
from support.certs import make_server_certs
from support.steps import Told, context_of
from support.wheels import Wheel, offer

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]
ONE, TWO, NEEDY = Wheel("hstone", "1.0"), Wheel("hstone", "2.0"), Wheel("hstneedy", "1.0", needs=("hstone",))
PYTHON = "/usr/bin/python3"
ENV = "/srv/envs/app"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    directory = tmp_path_factory.mktemp("certs")
    with BlobServer(make_server_certs(directory)) as server:
        offer(server, ONE, TWO, NEEDY)
        yield server


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, index: BlobServer) -> Path:
    """A root in which the first environment is in use: making one takes seconds."""
    directory = tmp_path_factory.mktemp("built")

    async def make() -> None:
        host = Host(root=directory, spool=directory / "spool", fetch=FetchSettings(ca_file=str(index.certs.ca)))
        await Place(directory, host, index).apply(ONE.pin)
        await host.close()

    asyncio.run(make())
    return directory


@dataclass
class Place:
    root: Path
    host: Host
    index: BlobServer

    @property
    def env(self) -> Path:
        return self.root / ENV.lstrip("/")

    def step(self, *pins: str, told: Told | None = None, **more: Any) -> StepContext:
        context = {name: more.pop(name) for name in ("policy", "allowed_sources", "cancelled") if name in more}
        given = {"path": ENV, "python": PYTHON, "lock": "\n".join(pins), "indexes": [self.index.url("/simple/")]}
        return context_of(convert(given | more, EnvCreate), self.host, told or Told(), deadline_s=100, **context)

    async def apply(self, *pins: str, **more: Any) -> Outcome:
        return await KIND.apply(self.step(*pins, **more))

    async def refused(self, *pins: str, **more: Any) -> HostlerError:
        with pytest.raises(HostlerError) as caught:
            await KIND.apply(self.step(*pins, **more))
        return caught.value

    def say(self) -> str:
        """The environment's own script, by the link and by its own name for itself."""
        done = subprocess.run([self.env / "current/bin/hstone-say"], capture_output=True, text=True, check=True)
        return done.stdout.split()[1]

    def with_one(self, built: Path) -> None:
        shutil.copytree(built / "srv", self.root / "srv", symlinks=True)

    def environments(self) -> set[str]:
        return {path.name for path in self.env.iterdir()} - {"current"} if self.env.exists() else set()


@pytest.fixture
async def place(tmp_path: Path, index: BlobServer) -> AsyncIterator[Place]:
    (tmp_path / "root").mkdir()
    host = Host(root=tmp_path / "root", spool=tmp_path / "spool", fetch=FetchSettings(ca_file=str(index.certs.ca)))
    yield Place(tmp_path / "root", host, index)
    index.faults.clear()
    await host.close()


async def test_SK_06_the_same_lock_twice_is_the_same_environment_and_another_one_is_switched_to(
    place: Place, built: Path
) -> None:
    place.with_one(built)
    first = await place.apply(ONE.pin)
    assert (first.changed, place.say()) == (False, "1.0")
    asked = len(place.index.requests)
    again = await place.apply("# a comment\n\n" + ONE.pin.replace(" --hash", " \\\n    --hash"))
    assert (again.changed, again.outputs) == (False, first.outputs)
    assert len(place.index.requests) == asked
    other = await place.apply(TWO.pin)
    assert (other.changed, place.say()) == (True, "2.0")
    assert other.outputs["env_digest"] != first.outputs["env_digest"]
    assert len(place.environments()) == 2, "the one that was in use before stays"
    back = await place.apply(ONE.pin)
    assert (back.changed, back.outputs, place.say()) == (True, first.outputs, "1.0")
    assert (await KIND.probe(place.step(ONE.pin))).truth is Truth.DONE
    assert (await KIND.probe(place.step(TWO.pin))).truth is Truth.NOT_DONE


async def test_SK_06_the_plan_says_what_would_be_made_and_makes_nothing(place: Place) -> None:
    fetch, made = (await KIND.plan(place.step(ONE.pin))).changes
    assert (fetch.action, fetch.target) == ("fetch", place.index.url("/simple/"))
    assert (made.action, made.target) == ("create", ENV)
    assert not (place.root / "srv").exists()


async def test_SK_06_a_wheel_of_another_digest_leaves_nothing_behind(place: Place) -> None:
    wrong = ONE.pin[:-64] + "0" * 64
    refusal = await place.refused(wrong)
    assert refusal.code == "digest_mismatch"
    assert place.environments() == set()
    assert not (place.env / "current").is_symlink()


async def test_SK_06_a_lock_that_cannot_be_had_fails_and_the_environment_in_use_stays(
    place: Place, built: Path
) -> None:
    """Neither is a source distribution built: that would run code of the package."""
    place.with_one(built)
    page = '<!DOCTYPE html><html><body><a href="/files/hstsource-1.0.tar.gz">hstsource-1.0.tar.gz</a></body></html>'
    place.index.blobs["/simple/hstsource/"] = Blob(page.encode())
    refusal = await place.refused(f"hstsource==1.0 --hash=sha256:{'0' * 64}")
    assert refusal.code == "exit_status"
    assert "No matching distribution" in refusal.message
    assert place.say() == "1.0"
    assert len(place.environments()) == 1


async def test_SK_06_an_index_outside_policy_or_definition_is_never_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are settings of the machine or the agent read; and only what the lock names is installed."""
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_NO_DEPS", "0")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    asked = len(place.index.requests)
    elsewhere = ("https://else.example/simple",)
    assert (await place.refused(ONE.pin, policy=Policy(allowed_artifact_sources=elsewhere))).code == "source_denied"
    assert (await place.refused(ONE.pin, allowed_sources=elsewhere)).code == "source_denied"
    assert (await place.refused(ONE.pin, indexes=[])).code == "binding_error"
    assert len(place.index.requests) == asked
    own = (place.index.url("/simple"),)
    assert (await place.apply(NEEDY.pin, policy=Policy(allowed_artifact_sources=own), allowed_sources=own)).changed
    found = {path.name.split("-")[0] for path in place.env.glob("current/lib/python*/site-packages/*.dist-info")}
    assert found & {"hstneedy", "hstone"} == {"hstneedy"}


async def test_SK_06_a_half_built_environment_is_removed_and_built_anew(place: Place, built: Path) -> None:
    place.with_one(built)
    (name,) = place.environments()
    (place.env / name / "hostler-env.json").unlink()
    told = Told()
    assert (await KIND.probe(place.step(ONE.pin))).truth is Truth.NOT_DONE
    assert (await place.apply(ONE.pin, told=told)).changed
    assert told.lines == [f"a half-built environment {name} is removed"]
    assert place.say() == "1.0"


KILLED = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from hostler.agent.host import pythons, trees
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.python_env_create import KIND
from hostler.base.strict import convert
from hostler.catalog.params.python import EnvCreate
from support.steps import Told, context_of

root, spool, ca, index, lock, point = sys.argv[2:]
owner, name = {"make_venv": (pythons.Pythons, "make_venv"), "point": (trees.Trees, "point")}[point]
setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
given = {"path": "/srv/envs/app", "python": "/usr/bin/python3", "lock": lock, "indexes": [index]}
host = Host(root=Path(root), spool=Path(spool), fetch=FetchSettings(ca_file=ca))
asyncio.run(KIND.apply(context_of(convert(given, EnvCreate), host, Told())))
"""


@pytest.mark.parametrize("point", ["make_venv", "point"])
async def test_SK_06_K1_killed_at_any_point_the_old_environment_or_the_new_one_is_in_use(
    place: Place, built: Path, tmp_path: Path, point: str
) -> None:
    place.with_one(built)
    tests = str(Path(__file__).parents[1])
    given = [str(place.root), str(tmp_path / "other-spool"), str(place.index.certs.ca), place.index.url("/simple/")]
    command = [sys.executable, "-c", KILLED, tests, *given, TWO.pin, point]
    done = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert place.say() == "1.0"
    assert (await KIND.probe(place.step(TWO.pin))).truth is Truth.NOT_DONE
    if point == "point":
        asked = len(place.index.requests)
        assert (await place.apply(TWO.pin)).changed
        assert (place.say(), len(place.index.requests)) == ("2.0", asked)
        return
    assert len(place.environments()) == 2
    assert not (await place.apply(ONE.pin)).changed
    assert len(place.environments()) == 1, "the half-built one is gone"


async def test_SK_06_an_interpreter_without_a_pip_of_its_own_gives_the_environment_one(
    place: Place, tmp_path: Path
) -> None:
    command = [PYTHON, "-I", "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    await asyncio.to_thread(subprocess.run, command, check=True)
    await place.apply(ONE.pin, python=str(tmp_path / "bare/bin/python"))
    assert place.say() == "1.0"


async def test_SK_06_two_steps_do_not_build_in_one_place_at_once(place: Place) -> None:
    with place.host.trees.held(ENV):
        assert (await place.refused(ONE.pin)).code == "file_error"


async def test_SK_06_a_cancelled_or_late_step_leaves_nothing(place: Place) -> None:
    cancelled = asyncio.Event()
    cancelled.set()
    assert (await place.refused(ONE.pin, cancelled=cancelled)).code == "canceled"
    context = place.step(ONE.pin)
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(replace(context, deadline=replace(context.deadline, at=0.0)))
    assert caught.value.code == "timeout"
    assert place.environments() == set()


async def test_SK_06_an_interpreter_that_is_not_there_is_incompatible(place: Place) -> None:
    assert (await place.refused(ONE.pin, python="/usr/bin/python9")).code == "incompatible"


async def test_SK_06_J1_a_link_in_the_way_of_the_environment_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (place.root / "srv").symlink_to(tmp_path / "outside")
    assert (await place.refused(ONE.pin)).code == "path_denied"
    assert list((tmp_path / "outside").iterdir()) == []
