"""RN-06, A7: images of real private registries, by real containerd and Docker, with either kind of credential."""

import asyncio
import json
import os
import secrets
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import need_slow
from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.spec import ATTEMPT
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable
from hostler.agent.steps import container_image
from hostler.agent.steps.container_run import KIND
from hostler.agent.steps.contract import Outcome
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.params.container import ContainerRun
from hostler.wire.task import Policy
from support import builders
from support.busybox import busybox_layer
from support.canary import Canary, Scan
from support.certs import make_server_certs
from support.dockerd import Dockerd, dockerd
from support.registry import OCI_INDEX, OCI_MANIFEST, Registry, TokenServer, entry, registry
from support.steps import UNLIMITED, Told, context_of
from support.workloads import Node

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), pytest.mark.xdist_group("containers")]

CAT = ("/bin/busybox", "cat", "/etc/stamp")
USER, PASSWORD = "puller", secrets.token_urlsafe(36)
CANARY = Canary.of("the registry's password", PASSWORD.encode())
REPOSITORY = "team/private"
# Says what it was run with, then does it.
CTR = '#!/bin/sh\ntr "\\0" " " < /proc/$$/cmdline >> {said}; tr "\\0" " " < /proc/$$/environ >> {said}\nexec ctr "$@"\n'


@dataclass
class Grounds:
    """Both runtimes, and a registry for each kind of credential."""

    engine: Dockerd
    registries: dict[str, Registry]
    tokens: TokenServer

    def image(self, kind: str, stamp: str, *more: tuple[tarfile.TarInfo, bytes]) -> str:
        held = self.registries[kind]
        return f"{held.name}/{REPOSITORY}@{held.image(REPOSITORY, busybox_layer(stamp, *more))}"

    def login(self, kind: str, *, right: bool = True) -> dict[str, str]:
        at = {"registry": f"https://{self.registries[kind].name}"}
        if kind == "token":
            return at | {"token": self.tokens.token(REPOSITORY if right else "team/b", ("pull",))}
        return at | {"username": USER, "password": PASSWORD if right else "guessed"}


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grounds]:
    places = {kind: tmp_path_factory.mktemp(kind) for kind in ("token", "basic")}
    certs = make_server_certs(tmp_path_factory.mktemp("certs"))
    with ExitStack() as stack:
        engine = stack.enter_context(dockerd())
        tokens = stack.enter_context(TokenServer(certs, {"robot": "secret"}).running())
        held = {
            "token": stack.enter_context(registry(places["token"], certs, tokens)),
            "basic": stack.enter_context(registry(places["basic"], certs, login=(USER, PASSWORD))),
        }
        for each in held.values():
            engine.below.trust(each.name, certs.ca)
        yield Grounds(engine, held, tokens)


@dataclass
class Tenants:
    """One node with one real runtime, and tasks of different people."""

    name: str
    folder: Path
    grounds: Grounds
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        place, below = self.grounds.engine.place, self.grounds.engine.below
        containerd = Containerd(below.socket, place / "logs", place / "run", place / "shm")
        self.runtime = containerd if self.name == "containerd" else Docker(self.grounds.engine.socket, builders.NODE)
        self.ctr = self.folder / "ctr"
        self.ctr.write_text(CTR.format(said=self.folder / "ctr.said"))
        self.ctr.chmod(0o755)
        ca = str(next(iter(self.grounds.registries.values())).certs.ca)
        (self.folder / "root").mkdir()
        fetch = FetchSettings(
            ca_file=ca, ctr=str(self.ctr), backoff_base_seconds=0.005, disk_reserve_bytes=1, mark_bytes=65_536
        )
        self.host = Host(root=self.folder / "root", fetch=fetch, spool=self.folder / "spool")

    @property
    def ctr_said(self) -> str:
        said = self.folder / "ctr.said"
        return said.read_text() if said.exists() else ""

    async def run(
        self,
        org: str,
        image: str,
        login: dict[str, str] | None,
        policy: Policy = UNLIMITED,
        attempt: str = "",
        checkpoint: dict[str, Any] | None = None,
        cancelled: asyncio.Event | None = None,
    ) -> Outcome:
        clock = SystemClock()
        table = SecretTable(Deadline.after(60, clock), clock)
        params: dict[str, Any] = {"job": f"/{org}/job", "command": list(CAT), "image": image}
        if login is not None:
            secret = Secret.take(bytearray(json.dumps(login).encode()))
            params["credential"] = table.put(secret, steps=frozenset({"step"}), lifetime_s=60)
        params |= {"network": "host", "resources": {"memory_bytes": 32 << 20, "shm_bytes": 0}}
        uid = attempt or f"{org}-{secrets.token_hex(4)}"
        place = self.folder / uid
        place.mkdir(exist_ok=True)
        socket = str(self.grounds.engine.below.socket)
        home = Node(place, self.runtime, allow_host_network=True, containerd_socket=socket)  # type: ignore[arg-type]
        async with home.agent() as _:
            context = context_of(
                msgspec.convert(params, ContainerRun), self.host, self.told, policy=policy, secrets=table,
                workloads=home.workloads, attempt_uid=uid, operation_id="op", org_id=org, project_id="p",
                checkpoint=checkpoint, cancelled=cancelled,
            )  # fmt: skip
            try:
                return await KIND.apply(context)
            finally:
                table.close()
                for found in await self.runtime.list({ATTEMPT: uid}):
                    await self.runtime.remove(found.id)

    @property
    def output(self) -> list[str]:
        return [line.text for _, line in self.told.shipped if line.stream == "stdout"]


@pytest.fixture(params=["containerd", "docker"])
async def tenants(request: pytest.FixtureRequest, tmp_path: Path, grounds: Grounds) -> AsyncIterator[Tenants]:
    made = Tenants(request.param, tmp_path, grounds)
    yield made
    await made.runtime.close()
    await made.host.close()


@pytest.mark.parametrize("kind", ["token", "basic"])
async def test_RN_06_A7_a_private_image_runs_for_whoever_the_registry_gives_it_to_and_for_nobody_else(
    tenants: Tenants, grounds: Grounds, kind: str
) -> None:
    if (tenants.name, kind) not in (("containerd", "token"), ("docker", "basic")):
        need_slow("each of the four takes seconds")
    image = grounds.image(kind, f"{tenants.name} {kind}")
    refused = [None, grounds.login(kind, right=False)]
    for login in refused:
        await denied(tenants, "bob", image, login)
        assert not await tenants.runtime.has_image(image), "nothing is fetched for nobody"
    outcome = await tenants.run("ann", image, grounds.login(kind))
    assert (outcome.outputs["exit_code"], tenants.output) == (0, [f"{tenants.name} {kind}"])
    assert await tenants.runtime.has_image(image)
    for login in refused:  # it is on the node now, and still not his
        await denied(tenants, "bob", image, login)
    await tenants.run("ann", image, grounds.login(kind))
    assert tenants.output == [f"{tenants.name} {kind}"] * 2
    by_us = (tenants.name, kind) == ("containerd", "token")
    assert tenants.ctr_said.count(" images import ") == int(by_us), "once, and only what its interface cannot do"


async def denied(tenants: Tenants, org: str, image: str, login: dict[str, str] | None) -> None:
    with pytest.raises(HostlerError) as refused:
        await tenants.run(org, image, login)
    assert refused.value.code == "source_denied", refused.value


@pytest.mark.parametrize("kind", ["token", "basic"])
async def test_RN_06_S1_the_credential_is_in_no_file_argument_environment_or_line(
    tenants: Tenants, grounds: Grounds, kind: str
) -> None:
    if (tenants.name, kind) != ("containerd", "token"):
        need_slow("each of the four takes seconds")
    login = grounds.login(kind)
    canary = CANARY if kind == "basic" else Canary.of("the token", login["token"].rpartition(".")[2].encode())
    scan = Scan(canary)
    running = asyncio.ensure_future(tenants.run("ann", grounds.image(kind, f"scan {tenants.name} {kind}"), login))
    while not running.done():
        scan.surroundings()
        await asyncio.sleep(0.02)
    outcome = await running
    below = grounds.engine.below.place
    scan.files(tenants.folder, grounds.engine.place, below, but=[grounds.engine.place / "exec"])
    scan.text("what was told", repr((outcome, tenants.told)))
    scan.text("what ctr was run with", tenants.ctr_said)
    assert scan.hits == []
    assert min(scan.looked[kind] for kind in ("cmdline", "environ", "files")) > 3, scan.looked
    assert not [path for path in (tenants.folder / "spool").glob(".hostler-*") if path.is_dir()]


@pytest.fixture
async def only_containerd(tmp_path: Path, grounds: Grounds) -> AsyncIterator[Tenants]:
    made = Tenants("containerd", tmp_path, grounds)
    yield made
    await made.runtime.close()
    await made.host.close()


async def test_RN_06_tasks_that_want_one_image_at_once_fetch_it_once(
    only_containerd: Tenants, grounds: Grounds
) -> None:
    image = grounds.image("token", "together")
    runs = (only_containerd.run("ann", image, grounds.login("token"), attempt=f"a{n}") for n in range(3))
    await asyncio.gather(*runs)
    assert only_containerd.output == ["together"] * 3
    assert only_containerd.ctr_said.count(" images import ") == 1


async def test_RN_06_K2_what_an_agent_has_fetched_the_next_one_does_not_fetch_again(
    only_containerd: Tenants, grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, bounds = only_containerd.told, container_image._bounds
    image = grounds.image("token", "resumed", (entry("srv/much", mode=0o644), os.urandom(2 << 20)))

    class Saved(list[dict[str, Any]]):
        def append(self, saved: dict[str, Any]) -> None:
            super().append(saved)
            if saved.get("pull", {}).get("state", {}).get("marks"):
                running.cancel()  # as an agent that stops

    told.saved = Saved()
    with monkeypatch.context() as slow:
        slow.setattr(container_image, "_bounds", lambda context: replace(bounds(context), most_per_s=2 << 20))
        running = asyncio.ensure_future(only_containerd.run("ann", image, grounds.login("token"), attempt="one"))
        with pytest.raises(asyncio.CancelledError):
            await running
    assert only_containerd.output == []
    noted, before = told.checkpoint, len(told.progress)
    told.saved = []
    await only_containerd.run("ann", image, grounds.login("token"), attempt="one", checkpoint=noted)
    assert only_containerd.output == ["resumed"]
    stood = noted["pull"]["state"]["marks"][-1][0]
    assert min(done for done, *_ in told.progress[before:]) >= stood > 0
    assert "pull" not in told.saved[-1] or not told.saved[-1]["pull"], "of no use any more"


async def test_RN_06_a_pull_that_is_cancelled_leaves_nothing_on_the_node(
    only_containerd: Tenants, grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds, cancelled = container_image._bounds, asyncio.Event()
    monkeypatch.setattr(container_image, "_bounds", lambda context: replace(bounds(context), most_per_s=1 << 20))
    image = grounds.image("token", "cancelled", (entry("srv/much", mode=0o644), os.urandom(2 << 20)))
    running = asyncio.ensure_future(only_containerd.run("ann", image, grounds.login("token"), cancelled=cancelled))
    spool = only_containerd.folder / "spool"
    while not list(spool.glob(".hostler-oci-*/blobs/sha256/*")):
        await asyncio.sleep(0.01)
    cancelled.set()
    with pytest.raises(HostlerError) as ended:
        await running
    assert ended.value.code == "canceled"
    assert list(spool.glob(".hostler-oci-*")) == []


class Late(Containerd):
    """Its container interface learns of an image some questions later."""

    unseen = 3

    async def has_image(self, reference: str) -> bool:
        self.unseen -= 1
        return self.unseen < 0 and await super().has_image(reference)


async def test_RN_06_a_container_is_made_when_the_container_interface_has_seen_the_image(
    only_containerd: Tenants, grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = grounds.engine
    late = Late(engine.below.socket, engine.place / "logs", engine.place / "run", engine.place / "shm")
    only_containerd.runtime = late
    await only_containerd.run("ann", grounds.image("token", "seen"), grounds.login("token"))
    assert only_containerd.output == ["seen"]
    late.unseen = 1_000_000
    monkeypatch.setattr(container_image, "SEEN_S", 0.1)
    with pytest.raises(HostlerError) as failed:
        await only_containerd.run("ann", grounds.image("token", "unseen"), grounds.login("token"))
    assert failed.value.code == "image_store"


async def test_RN_06_an_index_runs_as_the_manifest_for_this_machine(only_containerd: Tenants, grounds: Grounds) -> None:
    held = grounds.registries["token"]
    digest = held.image(REPOSITORY, busybox_layer("of an index"))
    _, _, body = held.call("GET", f"/v2/{REPOSITORY}/manifests/{digest}", Accept=OCI_MANIFEST)
    one = {"mediaType": OCI_MANIFEST, "digest": digest, "size": len(body)}
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [one | {"platform": {"os": "linux", "architecture": _architecture()}}],
    }
    image = f"{held.name}/{REPOSITORY}@{held.manifest(REPOSITORY, index)}"
    await only_containerd.run("ann", image, grounds.login("token"))
    await only_containerd.run("ann", image, grounds.login("token"))
    assert only_containerd.output == ["of an index"] * 2
    assert only_containerd.ctr_said.count(" images import ") == 1


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


async def test_RN_06_the_limits_and_the_sources_of_a_pull_hold_here_too(
    only_containerd: Tenants, grounds: Grounds
) -> None:
    image, login = grounds.image("token", "limited"), grounds.login("token")
    elsewhere = Policy(allowed_artifact_sources=("https://other.example/",))
    for policy, code in ((Policy(max_artifact_size_bytes=1000), "too_large"), (elsewhere, "source_denied")):
        with pytest.raises(HostlerError) as refused:
            await only_containerd.run("ann", image, login, policy)
        assert refused.value.code == code
    assert " images import " not in only_containerd.ctr_said


async def test_RN_06_a_containerd_that_is_away_is_waited_for_and_one_that_refuses_is_not(
    only_containerd: Tenants, grounds: Grounds
) -> None:
    need_slow("it kills containerd")
    image, real, below = grounds.image("token", "patient"), only_containerd.ctr.read_text(), grounds.engine.below
    only_containerd.ctr.write_text("#!/bin/sh\nexec false\n")
    with pytest.raises(HostlerError) as failed:
        await only_containerd.run("ann", image, grounds.login("token"))
    assert failed.value.code == "image_store"
    asked, gone = only_containerd.folder / "asked", only_containerd.folder / "gone"
    only_containerd.ctr.write_text(f"#!/bin/sh\n: > {asked}\nwhile [ ! -e {gone} ]; do sleep 0.02; done\nexec false\n")
    running = asyncio.ensure_future(only_containerd.run("ann", image, grounds.login("token")))
    while not asked.exists():
        await asyncio.sleep(0.01)
    await asyncio.to_thread(below.kill)
    only_containerd.ctr.write_text(real)
    gone.touch()
    await asyncio.sleep(0.1)
    assert not running.done()
    await asyncio.to_thread(below.start)
    await running
    assert only_containerd.output == ["patient"]
