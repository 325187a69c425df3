"""A7, RN-06, RN-12: an image that is here is not everybody's; each task shows the registry its own credential."""

import asyncio
import base64
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.containers.runtime import State
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable
from hostler.agent.steps import container_task, container_watch
from hostler.agent.steps.container_image import authorise
from hostler.agent.steps.container_run import KIND
from hostler.agent.steps.contract import Outcome, StepContext
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.params.container import ContainerRun
from hostler.wire.task import Policy
from support.blob_server import Asked, Blob, BlobServer, Reply
from support.certs import make_server_certs
from support.fake_runtime import FakeContainer, FakeRuntime
from support.steps import UNLIMITED, Told, context_of
from support.workloads import Node, until

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SECRET = "canary-7f3a-password"
RIGHT = "Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()


def manifest() -> bytes:
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": f"sha256:{'c' * 64}", "size": 2}
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as started:
        yield started


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_watch, "_TICK_S", 0.01)


class Tenants:
    """One node and its Docker, one registry with one image, and tasks of different people."""

    def __init__(self, folder: Path, server: BlobServer, *, private: bool) -> None:
        body = manifest()
        digest = f"sha256:{sha256(body).hexdigest()}"
        server.blobs = {f"/v2/team/train/manifests/{digest}": Blob(body)}
        server.always = only_for(RIGHT) if private else only_for("")
        server.requests = []
        self.server, self.folder = server, folder
        self.image = f"localhost:{server.port}/team/train@{digest}"
        self.runtime = FakeRuntime("docker", ends_well)
        settings = FetchSettings(ca_file=str(server.certs.ca), backoff_base_seconds=0.005)
        (folder / "root").mkdir()
        self.host = Host(root=folder / "root", fetch=settings)
        self.told = Told()

    async def run(
        self,
        attempt: str,
        login: dict[str, str] | None = None,
        policy: Policy = UNLIMITED,
        checkpoint: dict[str, Any] | None = None,
    ) -> Outcome:
        clock = SystemClock()
        table = SecretTable(Deadline.after(60, clock), clock)
        credential = ""
        if login is not None:
            secret = Secret.take(bytearray(json.dumps(login | {"registry": self.registry}).encode()))
            credential = table.put(secret, steps=frozenset({"step"}), lifetime_s=60)
        params = {"job": f"/{attempt}/job", "command": ["x"], "image": self.image, "credential": credential}
        home = Node(self.folder, self.runtime, allow_process=False)
        async with home.agent() as _:
            context = context_of(
                msgspec.convert(params, ContainerRun), self.host, self.told, policy=policy, secrets=table,
                workloads=home.workloads, attempt_uid=attempt, operation_id="op", org_id=attempt, project_id="p",
                checkpoint=checkpoint or {},
            )  # fmt: skip
            try:
                return await KIND.apply(context)
            finally:
                table.close()

    @property
    def registry(self) -> str:
        return f"https://{self.image.partition('/')[0]}"


def ends_well(one: FakeContainer) -> None:
    one.end()


def only_for(authorization: str) -> Any:
    def judge(reply: Reply, asked: Asked, blob: Blob) -> Reply:
        if authorization and asked.headers.get("authorization") != authorization:
            return Reply(401, {"Content-Length": "0", "WWW-Authenticate": 'Basic realm="private"'})
        headers = reply.headers | {"Content-Type": MANIFEST}
        return Reply(reply.status, headers, reply.body, reply.cut_after)

    return judge


ANN = {"username": "ann", "password": SECRET}


async def test_A7_RN_12_what_one_tenant_pulled_another_does_not_run_without_its_own_credential(
    tmp_path: Path, server: BlobServer
) -> None:
    tenants = Tenants(tmp_path, server, private=True)
    with pytest.raises(HostlerError) as refused:
        await tenants.run("bob")
    assert (refused.value.code, tenants.runtime.did("pull")) == ("source_denied", [])
    assert (await tenants.run("ann", ANN)).outputs["exit_code"] == 0
    assert tenants.image in tenants.runtime.images, "it is on the node now"
    pulls = len(tenants.runtime.did("pull"))
    for attempt, login in (("bob-2", None), ("bob-3", {"username": "bob", "password": "guessed"})):
        with pytest.raises(HostlerError) as refused:
            await tenants.run(attempt, login)
        assert refused.value.code == "source_denied"
    assert [one.spec.labels["hostler.org"] for one in tenants.runtime.made if one.starts] == ["ann"]
    assert len(tenants.runtime.did("pull")) == pulls


async def test_A7_a_container_is_made_while_the_registry_is_asked_and_started_after_its_yes(
    tmp_path: Path, server: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer takes a round trip or two, in which the engine can work: nothing of the image runs before it."""
    tenants = Tenants(tmp_path, server, private=False)
    tenants.runtime.images.add(tenants.image)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(context: StepContext) -> None:
        asked.set()
        await answer.wait()
        await authorise(context)

    monkeypatch.setattr(container_task, "authorise", slowly)
    running = asyncio.ensure_future(tenants.run("ann"))
    await asked.wait()
    await until(lambda: tenants.runtime.containers)
    await asyncio.sleep(0.05)
    assert (tenants.runtime.only.state, tenants.runtime.did("start")) == (State.CREATED, [])
    assert tenants.told.saved == [], "an agent that dies here has not been told yes"
    answer.set()
    assert (await running).outputs["exit_code"] == 0
    assert tenants.told.saved[-1]["image"] == tenants.image


@pytest.mark.parametrize("noted", [{}, {"attempt": "bob", "runtime": "docker"}], ids=["nothing", "by an earlier agent"])
async def test_A7_an_agent_that_died_while_it_asked_leaves_nothing_that_the_next_one_starts_unasked(
    tmp_path: Path, server: BlobServer, monkeypatch: pytest.MonkeyPatch, noted: dict[str, Any]
) -> None:
    tenants = Tenants(tmp_path, server, private=True)
    tenants.runtime.images.add(tenants.image)
    with monkeypatch.context() as patch:
        patch.setattr(container_task, "authorise", lambda context: asyncio.Event().wait())
        running = asyncio.ensure_future(tenants.run("bob"))
        await until(lambda: tenants.runtime.containers)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (tenants.runtime.only.state, tenants.told.saved) == (State.CREATED, [])
    with pytest.raises(HostlerError) as refused:
        await tenants.run("bob", checkpoint=noted)
    assert (refused.value.code, tenants.runtime.only.starts) == ("source_denied", 0)


async def test_RN_06_a_public_image_needs_no_credential(tmp_path: Path, server: BlobServer) -> None:
    tenants = Tenants(tmp_path, server, private=False)
    outcome = await tenants.run("bob")
    assert tenants.runtime.auths == [None]
    assert outcome.artifacts[0].uri == f"oci://{tenants.image}"
    assert outcome.artifacts[0].sha256 == tenants.image[-64:]


async def test_RN_06_a_private_one_is_pulled_with_the_tasks_own(tmp_path: Path, server: BlobServer) -> None:
    tenants = Tenants(tmp_path, server, private=True)
    await tenants.run("ann", ANN)
    (auth,) = tenants.runtime.auths
    assert auth is not None
    assert auth.username == "ann"
    with pytest.raises(HostlerError):  # the task has ended, and its secrets with it
        auth.password()


async def test_AR_06_an_image_comes_only_from_where_policy_lets_it(tmp_path: Path, server: BlobServer) -> None:
    tenants = Tenants(tmp_path, server, private=False)
    with pytest.raises(HostlerError) as refused:
        await tenants.run("bob", policy=Policy(allowed_artifact_sources=("https://other.example/",)))
    assert refused.value.code == "source_denied"
    assert server.requests == []
    assert tenants.runtime.did("pull") == []


async def test_S1_the_credential_is_nowhere_that_the_container_or_anybody_else_could_read(
    tmp_path: Path, server: BlobServer
) -> None:
    tenants = Tenants(tmp_path, server, private=True)
    outcome = await tenants.run("ann", ANN)
    spec = tenants.runtime.only.spec
    said = [repr(spec), repr(outcome), *tenants.told.lines, repr(tenants.told.saved), repr(tenants.runtime.calls)]
    assert not [text for text in said if SECRET in text or RIGHT.partition(" ")[2] in text]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert kept == []
