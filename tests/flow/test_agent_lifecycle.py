"""LC-02, LC-10, LC-12, LC-14, LC-16, LC-21, EV-06..09: agents are upgraded by a real control plane, over real sessions.

The control plane is whole: store, signatures, mutual TLS, HTTP. Releases are signed and published by the command line.
The nodes are light ones, which do as a genuine agent would: fetch, restart, renew, report.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from hostler.base.digest import sha256_hex
from hostler.cli.main import main
from hostler.control.delivery.settings import UpdateSettings
from hostler.pki.agent_report import AgentReport, DriftState, Returned, Trial, sign_report
from hostler.pki.releases import pack_metadata, parse_metadata, verify_releases
from hostler.pki.trust import TrustStore
from hostler.pki.x509 import make_csr
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.node import Heartbeat, Reports, WorkerPolicy
from hostler.wire.task import TaskSpec
from support.agents import STAGE, UPDATE, VERIFY, profiles
from support.builders import definition
from support.fake_node import FakeNode, Session
from support.plane import Plane, plane, prepare, trust, until
from support.published import RELEASES
from support.releases import COMMIT, agent_package

pytestmark = pytest.mark.timeout(90)
PROGRAM = (sys.executable, "-c", "from hostler.cli.main import main; main()")
OLD, NEW = "1.0.0", "1.1.0"
ADMIN = "/api/v1/admin"
HOSTS = {"node_address": "cp.example:7081", "enroll_address": "cp.example:7082"}


class Fleet:
    """A control plane with two releases, and its operator's command line."""

    def __init__(self, control: Plane, folder: Path) -> None:
        self.control, self.folder = control, folder
        self.config = folder / "cli.toml"
        token = control.http.headers["authorization"].partition(" ")[2]
        (folder / "me.token").write_text(token)
        (folder / "me.token").chmod(0o600)
        self.config.write_text(
            f'server = "{control.ports.server}"\ntoken_file = "{folder}/me.token"\nproject = "train"\n'
        )

    async def cli(self, *words: str, code: int = 0) -> str:
        told = (*PROGRAM, "--config", str(self.config), *words)
        pipe, joined = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        running = await asyncio.create_subprocess_exec(*told, stdout=pipe, stderr=joined)
        said, _ = await running.communicate()
        assert running.returncode == code, said.decode()
        return said.decode()

    async def publish(self, *, by_cli: bool = False) -> None:
        """A repository made as people make it, and sent by the command line or by what that does."""
        repository, pki = self.folder / "repo", self.folder / "pki"
        by = ("--trust", str(pki / "trust.json"), "--key", str(pki / "update/update.key"))
        self._offline("releases", "init", str(repository), *by)
        for version in (OLD, NEW):
            path = self.folder / f"hostler-agent_{version}-1~deb12u1_amd64.deb"
            path.write_bytes(agent_package(version))
            self._offline("releases", "add", str(repository), str(path), "--channel", "stable", *by)
        if by_cli:
            assert f"{NEW}, {OLD}" in await self.cli("releases", "publish", str(repository))
            return
        document = pack_metadata(repository)
        judged = await self.control.call("PUT", RELEASES, content=document)
        for each in judged["missing"]:
            package = (repository / "targets" / f"{each['sha256']}.{each['file']}").read_bytes()
            await self.control.call("PUT", f"{RELEASES}/packages/{each['sha256']}", 201, content=package)
        assert (await self.control.call("PUT", RELEASES, content=document))["published"]

    def _offline(self, *words: str) -> None:
        done = CliRunner().invoke(main, [*words], env={"HOSTLER_CONFIG": None})
        assert done.exit_code == 0, done.output

    async def run(self, run_id: str) -> Any:
        return await self.control.call("GET", f"{ADMIN}/agent-runs/{run_id}")

    async def reaches(self, run_id: str, *states: str) -> Any:
        async def there() -> Any:
            found = await self.run(run_id)
            return found if found["state"] in states else None

        return await until(there)

    def events(self, *types: str) -> list[dict[str, Any]]:
        marks = ", ".join("?" * len(types))
        rows = self.control.rows(f"SELECT type, body FROM events WHERE type IN ({marks}) ORDER BY id", *types)
        return [{"type": type_, **json.loads(body)} for type_, body in rows]


@asynccontextmanager
async def fleet(folder: Path, *, by_cli: bool = False) -> AsyncIterator[Fleet]:
    config = prepare(folder, heartbeat_seconds=60, updates=UpdateSettings(public_url="https://cp.example", **HOSTS))
    async with plane(folder, config) as control:
        await control.publish(*profiles(), definition())
        made = Fleet(control, folder)
        await made.publish(by_cli=by_cli)
        yield made


def report(node: FakeNode, version: str, **said: Any) -> bytes:
    values: dict[str, Any] = {"node_id": node.node_id, "at_ms": 1, "version": version, "commit": COMMIT}
    values |= {"suite": "bookworm", "state": DriftState.IN_SYNC}
    return sign_report(AgentReport(**(values | said)), node.signer)


def speaking(node: FakeNode, version: str, **said: Any) -> dict[str, Any]:
    """What a hello of that version says."""
    signed = report(node, version, **said)
    return {
        "agent_version": version,
        "agent_commit": COMMIT,
        "instance_id": f"{version} {said}",
        "agent_report": signed,
    }


async def renew(node: FakeNode) -> None:
    async with node.channel() as channel:
        request = node_pb2.RenewRequest(csr_der=make_csr(node.signer, node.node_id))
        answer = await node_pb2_grpc.NodeServiceStub(channel).Renew(request)
    node.certificate = answer.certificate_pem


async def next_task(session: Session, type_: str) -> TaskSpec:
    (spec,) = await session.take()
    assert spec.operation_type == type_
    return spec


async def done(session: Session, spec: TaskSpec, failed: str = "") -> None:
    """Told, not waited for: what comes of it may be there before the acknowledgement."""
    await session.say(Reports(tuple(session.node.finished(spec, failed=failed))))


def high(*specs: TaskSpec) -> int:
    return max(spec.sequence for spec in specs)


async def test_LC_12_LC_21_a_whole_run_from_the_command_line_to_the_four_checks(tmp_path: Path) -> None:
    async with fleet(tmp_path, by_cli=True) as at:
        node = await at.control.enroll("gpu-1")
        async with node.session(**speaking(node, OLD)) as session:
            await at.cli("agents", "channels", "set", "stable", NEW)
            policy: WorkerPolicy = await session.next(WorkerPolicy)
            while policy.desired_agent_version != NEW:
                policy = await session.next(WorkerPolicy)
            watching = asyncio.create_task(at.cli("agents", "upgrade", "gpu-1", "--safety", "drain"))
            stage = await next_task(session, STAGE)
            given = json.loads(stage.inputs_json)
            await fetched_as_a_node_would(at, given)
            await done(session, stage)
            update = await next_task(session, UPDATE)
            (run,) = (await at.control.call("GET", f"{ADMIN}/agent-runs"))["items"]
            assert (run["state"], run["target_version"]) == ("delivering", NEW)
        trial = Trial(version=NEW, from_version=OLD, task_id=update.task_id, deadline_ms=1)
        known = {"high_sequence": high(stage, update), "open_tasks": (update.task_id,)}
        async with node.session(**speaking(node, NEW, trial=trial), **known) as session:
            verify = await next_task(session, VERIFY)
            assert (await at.run(run["run_id"]))["state"] == "trial"
            await done(session, verify)
            await renew(node)
        known["high_sequence"] = high(stage, update, verify)
        async with node.session(**speaking(node, NEW), **known) as session:
            held = await at.reaches(run["run_id"], "trial")
            assert set(held["checks"]) == {"version_reported", "service_healthy", "renewal_works"}
            await done(session, update)
            over = await at.reaches(run["run_id"], "succeeded")
            assert len(over["checks"]) == 4
            said = await watching
            assert "trial" in said
            assert "succeeded" in said
            listed = await at.cli("agents", "list")
            assert "Agent current 1" in listed
            shown = await at.control.call("GET", f"{ADMIN}/nodes/gpu-1/agent-lifecycle")
            assert shown["agent"]["reported_agent_version"] == NEW
        told = at.events("agent.upgrade.started", "agent.upgrade.completed", "agent.upgrade.failed")
        assert [each["type"] for each in told] == ["agent.upgrade.started", "agent.upgrade.completed"]


async def fetched_as_a_node_would(at: Fleet, given: dict[str, Any]) -> None:
    """LC-12: metadata by the keyset, the package by its short-lived address, both over plain HTTP."""
    async with at.control.client("") as nobody:
        document = (await nobody.get(given["metadata_url"].removeprefix("https://cp.example"))).content
        answer = await nobody.get(given["url"].removeprefix("https://cp.example"))
    keyset = TrustStore(trust(at.folder), 0).keyset
    now_ms = keyset.issued_ms + 60_000
    release = verify_releases(parse_metadata(document), keyset, {}, now_ms).find(given["version"], given["suite"])
    assert answer.status_code == 200
    assert sha256_hex(answer.content) == release.sha256 == given["sha256"]
    assert len(answer.content) == given["size_bytes"]


async def test_LC_16_EV_09_a_node_that_returns_by_itself_ends_its_run_and_says_so_once(tmp_path: Path) -> None:
    async with fleet(tmp_path) as at:
        node = await at.control.enroll("gpu-1")
        async with node.session(**speaking(node, OLD)) as session:
            body = {"mode": "rebootstrap", "scenario": "in_place_upgrade", "target_version": NEW}
            made = await at.control.call("POST", f"{ADMIN}/nodes/gpu-1/agent-lifecycle", 201, json=body)
            run_id = made["run"]["run_id"]
            stage = await next_task(session, STAGE)
            await done(session, stage)
            update = await next_task(session, UPDATE)
        back = Returned(
            version=NEW,
            to_version=OLD,
            task_id=update.task_id,
            error_code="upgrade_rolled_back",
            reason="no certificate within 90 s",
            at_ms=7,
        )
        known = {"high_sequence": high(stage, update), "open_tasks": (update.task_id,)}
        async with node.session(**speaking(node, OLD, returned=back), **known) as session:
            over = await at.reaches(run_id, "rolled_back")
            assert over["error_message"] == "no certificate within 90 s"
            await done(session, update, failed="upgrade_rolled_back")
            beat = Heartbeat(agent_report=report(node, OLD, returned=back, at_ms=2), storage="ok")
            await session.say(beat)
            lifecycle = f"{ADMIN}/nodes/gpu-1/agent-lifecycle"

            async def newer() -> Any:
                return (await at.control.call("GET", lifecycle))["agent"]["last_probe_at_ms"] == 2

            await until(newer)
        told = at.events("agent.upgrade.failed", "agent.rollback.completed")
        assert sorted(each["type"] for each in told) == ["agent.rollback.completed", "agent.upgrade.failed"]
        assert {each["run_id"] for each in told} == {run_id}
        said = await at.cli("agents", "runs", run_id, code=1)
        assert "rolled_back" in said


async def test_LC_14_who_is_away_is_upgraded_on_return_and_a_restart_forgets_nothing(
    tmp_path: Path,
) -> None:
    async with fleet(tmp_path) as at:
        node = await at.control.enroll("gpu-1")
        async with node.session(**speaking(node, OLD)):
            pass
        body = {"mode": "rebootstrap", "scenario": "repair_reinstall", "target_version": OLD}
        made = await at.control.call("POST", f"{ADMIN}/nodes/gpu-1/agent-lifecycle", 201, json=body)
        run_id = made["run"]["run_id"]

        async def waits() -> Any:
            return (await at.run(run_id))["waiting_for"] == "node_away"

        await until(waits)
        config = at.control.config
    async with plane(tmp_path, config) as again:
        at = Fleet(again, tmp_path)
        node.address = config.node_listen
        async with node.session(**speaking(node, OLD)) as session:
            stage = await next_task(session, STAGE)
            assert json.loads(stage.inputs_json)["version"] == OLD
            await done(session, stage)
            update = await next_task(session, UPDATE)
            assert json.loads(update.inputs_json)["repair"] is True
        assert (await at.run(run_id))["waiting_for"] == ""


async def test_a_report_that_another_key_signed_is_dropped_and_the_session_goes_on(tmp_path: Path) -> None:
    async with fleet(tmp_path) as at:
        node, other = await at.control.enroll("gpu-1"), await at.control.enroll("gpu-2")
        forged = msgspec.structs.replace(
            AgentReport(node_id=node.node_id, at_ms=9, version="9.9.9", commit=COMMIT, state=DriftState.IN_SYNC)
        )
        async with node.session(agent_version=OLD, agent_report=sign_report(forged, other.signer)) as session:
            await session.say(Heartbeat(agent_report=report(other, OLD), storage="ok"))
            await session.say(Heartbeat(agent_report=report(node, OLD, at_ms=3), storage="ok"))

            async def seen() -> Any:
                shown = await at.control.call("GET", f"{ADMIN}/nodes/gpu-1/agent-lifecycle")
                return shown["agent"]["last_probe_at_ms"]

            assert await until(seen) == 3


async def test_LC_07_LC_08_what_people_do_is_asked_for_at_the_command_line(tmp_path: Path) -> None:
    async with fleet(tmp_path) as at:
        node = await at.control.enroll("gpu-1")
        async with node.session(**speaking(node, OLD)):
            said = await at.cli("agents", "upgrade", "gpu-1", "--to", NEW, "--mode", "manual_install")
            assert "sha256sum --check" in said
            assert "awaiting_operator" in said
            assert "\\x" not in said
            run_id = (await at.control.call("GET", f"{ADMIN}/agent-runs"))["items"][0]["run_id"]
            await at.cli("agents", "cancel", run_id, "--reason", "by another way")
            document = tmp_path / "user-data"
            words = ("--to", NEW, "--mode", "reimage", "-o", str(document))
            said = await at.cli("agents", "upgrade", "gpu-1", *words)
            assert "hst1_" not in said
            assert document.stat().st_mode & 0o777 == 0o600
            assert document.read_text().startswith("#cloud-boothook\n")
            assert "gpu-1" in await at.cli("agents", "runs")
            run_id = (await at.control.call("GET", f"{ADMIN}/agent-runs"))["items"][0]["run_id"]
            followed = asyncio.create_task(at.cli("agents", "runs", run_id, "--watch", code=1))
            await asyncio.sleep(1)
            assert not followed.done(), "it is over when the run is"
            await at.cli("agents", "cancel", run_id)
            assert "canceled" in await followed
            made = json.loads(await at.cli("agents", "upgrade", "gpu-1", *words[:-2], "--output", "json"))
            assert made["document"]["content"].startswith("#cloud-boothook\n"), "nobody else has it"
            await at.cli("agents", "pin", "gpu-1", OLD)
            assert OLD in await at.cli("agents", "show", "gpu-1")
            await at.cli("agents", "follow", "gpu-1", "stable")
            assert NEW in await at.cli("agents", "releases")
            assert "stable" in await at.cli("agents", "channels")


async def test_LC_08_one_package_is_checked_against_the_metadata_that_is_served(tmp_path: Path) -> None:
    async with fleet(tmp_path) as at:
        served = await at.control.http.get("/packages/v1/metadata.json")
        (tmp_path / "metadata.json").write_bytes(served.content)
        package = tmp_path / f"hostler-agent_{NEW}-1~deb12u1_amd64.deb"
        by = ("--metadata", str(tmp_path / "metadata.json"), "--trust", str(tmp_path / "pki/trust.json"))
        assert NEW in await at.cli("releases", "check", str(package), *by)
        by_itself = ("--trust", str(tmp_path / "pki/trust.json"))
        digest = sha256_hex(package.read_bytes())
        assert NEW in await at.cli("releases", "check", digest, *by_itself), "the control plane is asked"
        assert "release_untrusted" in await at.cli("releases", "check", "0" * 64, *by_itself, code=1)
        assert "nor is it a SHA-256" in await at.cli("releases", "check", digest[:-1], *by_itself, code=1)
        package.write_bytes(package.read_bytes() + b"x")
        assert "release_untrusted" in await at.cli("releases", "check", str(package), *by, code=1)
