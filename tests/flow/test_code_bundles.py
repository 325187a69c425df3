"""JB-08: a workspace from the command line to the node: packed, sent, kept over a restart, fetched, unpacked."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.bundles.contract import BundleSettings as NodeSettings
from hostler.agent.lifecycle.bundles import BundleSource
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside
from hostler.base.errors import HostlerError
from hostler.catalog.job import JobSpec
from hostler.cli.bundles_api import sent
from hostler.cli.client import Client
from hostler.cli.settings import Settings
from hostler.control.bundles.settings import BundleSettings
from support.bundling import cache, facts
from support.fake_node import FakeNode
from support.outside import InProcess
from support.plane import PROJECT, Plane, plane, prepare
from support.tasking import CAPABILITIES, JOBS, submit_job

pytestmark = pytest.mark.timeout(60)


async def settings_of(control: Plane, folder: Path) -> Settings:
    """Of a project member with a token in a file."""
    client = await control.principal("mia", "project_member", "acme", PROJECT)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(client.headers["authorization"].removeprefix("Bearer "))
    await client.aclose()
    return Settings(server=control.ports.server, token_file=str(token), project=PROJECT)


def workspace(folder: Path) -> Path:
    work = folder / "work"
    (work / "pkg").mkdir(parents=True)
    (work / "main.py").write_text("import pkg\n")
    (work / "pkg" / "__init__.py").write_bytes(os.urandom(3_000_000))
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o750)
    (work / "latest").symlink_to("pkg/__init__.py")
    (work / ".git").mkdir()
    (work / ".git" / "HEAD").write_text("ref")
    return work


def send(settings: Settings, folder: Path) -> str:
    client = Client(settings)
    try:
        return sent(client, settings, folder, quiet=True)
    finally:
        client.close()


async def fetched(node: FakeNode, task: Any, sha256: str, folder: Path) -> Path:
    tls = Tls(
        trust_domain=node.trust_domain, ca_pems=node.ca_pems, key_pem=node.signer.to_pem(), chain_pem=node.certificate
    )  # fmt: skip
    inside = InProcess()
    outside = Outside(inside.connect)
    running = asyncio.create_task(outside.run())
    try:
        kept = cache(folder, BundleSource(outside.pull, lambda: (tls, node.address)))
        own = msgspec.structs.replace(facts(), task_id=task.task_id, attempt_uid=task.attempt_uid)
        return await kept.fetch(own, sha256)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await asyncio.wait(inside.servers, timeout=5)


async def test_JB_08_a_workspace_comes_to_the_node_as_it_was_also_after_a_restart(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    config = prepare(tmp_path, bundles=BundleSettings(reserve_bytes=0))
    async with plane(tmp_path, config) as control:
        await control.publish(JOBS)
        node = await control.enroll("gpu-1")
        settings = await settings_of(control, tmp_path)
        sha256 = await asyncio.to_thread(send, settings, work)
        assert await asyncio.to_thread(send, settings, work) == sha256
        stored = control.rows("SELECT type FROM events WHERE type LIKE 'bundle.%'")
        assert stored == [("bundle.stored",)]
    async with plane(tmp_path, config) as control, node.session(capabilities=CAPABILITIES) as session:
        await submit_job(control, node, JobSpec(name="train", command=("true",), bundle=sha256))
        (task,) = await session.take()
        tree = await fetched(node, task, sha256, tmp_path / "node")
        assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*")) == [
            "latest", "main.py", "pkg", "pkg/__init__.py", "run.sh",
        ]  # fmt: skip
        for name in ("main.py", "pkg/__init__.py", "run.sh", "latest"):
            assert (tree / name).read_bytes() == (work / name).read_bytes()
        assert (tree / "latest").is_symlink()
        assert (tree / "run.sh").stat().st_mode & 0o777 == 0o555


async def test_a_refusal_of_the_control_plane_reaches_who_sends(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with plane(tmp_path, bundles=BundleSettings(reserve_bytes=0, max_bytes=2_000_000)) as control:
        await control.enroll("gpu-1")
        settings = await settings_of(control, tmp_path)
        with pytest.raises(HostlerError) as failed:
            await asyncio.to_thread(send, settings, work)
        assert failed.value.code == "too_large"
        assert list((Path(control.config.state_dir) / "bundles").glob("*/*/*")) == []
        assert NodeSettings().max_bytes >= BundleSettings().max_bytes, "a node takes what a control plane keeps"
