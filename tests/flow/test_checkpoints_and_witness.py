"""Receipts that a taken-over control plane cannot bend: a real control plane, a witness, and the command line."""

import asyncio
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from hostler.base.clock import SystemClock
from hostler.cli.demo_files import program
from hostler.pki import ceremony
from hostler.pki.bundle import Bundle
from hostler.pki.storage import write_private
from support.plane import Plane, plane, prepare, until

CHECKPOINTS = "/api/v1/admin/checkpoints"


class Done(NamedTuple):
    exit_code: int
    output: str


def hostler(*arguments: object) -> Done:
    """The command line as a process of its own."""
    words = [program("hostler"), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return Done(done.returncode, done.stdout + done.stderr)


class Desk:
    """The command line beside a running control plane, in the hands of an auditor who is also the witness."""

    def __init__(self, home: Path, control: Plane, auditor: httpx.AsyncClient) -> None:
        self.home = home
        token = home / "auditor.token"
        write_private(token, auditor.headers["authorization"].removeprefix("Bearer ").encode())
        self.config = control.home / "config.toml"
        self.config.write_text(f'server = "{control.ports.server}"\ntoken_file = "{token}"\nproject = "train"\n')

    @classmethod
    async def of(cls, control: Plane) -> "Desk":
        name = f"auditor-{SystemClock().now_ms()}"
        async with await control.principal(name, "auditor") as auditor:
            return cls(control.home, control, auditor)

    async def run(self, *arguments: object) -> "Done":
        return await asyncio.to_thread(hostler, "--config", self.config, *arguments)

    async def ok(self, *arguments: object) -> Any:
        done = await self.run(*arguments, "--output", "json")
        assert done.exit_code == 0, done.output
        return msgspec.json.decode(done.output)

    async def witness(self, *more: object) -> Done:
        home = self.home
        trust = home / "pki/trust.json"
        words = ["--key", home / "witness.key", "--state", home / "witness.json", "--trust", trust]
        return await self.run("audit", "witness", *words, *more)


def with_witness(home: Path) -> None:
    """The root signs a keyset that names a new witness, as an operator would have it done."""
    made = hostler("audit", "witness-key", home / "witness.key", "--output", "json")
    assert made.exit_code == 0, made.output
    key = msgspec.json.decode(made.output)
    granted = hostler("pki", "grant", "witness", home / "pki", "--public-key", key["key"])
    assert granted.exit_code == 0, granted.output


async def work(control: Plane, *nodes: Any) -> str:
    """One operation on these nodes, done and told."""
    operation_id = await control.submit(*nodes)
    for node in nodes:
        async with node.session() as session:
            (spec,) = await session.take()
            await session.report(node.finished(spec))
    return operation_id


async def newest(control: Plane, receipts: int) -> Any:
    """Waits for a checkpoint over that many receipts."""

    async def there() -> bool:
        return control.rows("SELECT max(receipts) FROM checkpoints")[0][0] == receipts

    await until(there)


async def test_checkpoints_are_witnessed_exported_and_verified_offline(tmp_path: Path) -> None:
    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    trust, bundle, earlier = tmp_path / "pki/trust.json", tmp_path / "audit.json", tmp_path / "earlier.json"
    async with plane(tmp_path, config) as control:
        await control.publish()
        desk = await Desk.of(control)
        assert "no checkpoint yet" in (await desk.witness()).output
        a, b = await control.enroll("gpu-1"), await control.enroll("gpu-2")
        await work(control, a, b)
        await newest(control, 2)
        await desk.ok("audit", "export", "--all", "-o", earlier)
        done = await desk.run("audit", "verify", earlier, "--trust", trust, "--require-witness")
        assert done.exit_code == 1
        assert "no checkpoint that a witness has seen" in done.output

        operation_id = await work(control, a)
        await newest(control, 3)
        seen = await desk.witness()
        assert seen.exit_code == 0, seen.output
        again = await desk.witness()
        assert (again.exit_code, "0 new" in again.output) == (0, True)
        await desk.ok("audit", "export", "--all", "-o", bundle)
        words = ["audit", "verify", bundle, "--trust", trust, "--require-witness", "--require-all", "--since", earlier]
        report = await desk.ok(*words)
        assert report["ok"]
        assert report["anchored"]
        assert {node["node_id"]: (node["length"], node["witnessed"]) for node in report["nodes"]} == {
            a.node_id: (2, 2),
            b.node_id: (1, 1),
        }
        assert [each["witnessed"] for each in report["checkpoints"]] == [True]
        assert "scope" in (await desk.run("audit", "export", operation_id, "-o", tmp_path / "one.json")).output
        await desk.ok("audit", "export", "--node", a.node_id, "-o", tmp_path / "one.json")
        one = await desk.ok("audit", "verify", tmp_path / "one.json", "--trust", trust, "--require-witness")
        assert [node["node_id"] for node in one["nodes"]] == [a.node_id]

        path = f"/api/v1/projects/train/operations/{operation_id}/audit-bundle"
        (tmp_path / "operation.json").write_bytes((await control.http.get(path)).content)
        await desk.ok("audit", "verify", tmp_path / "operation.json", "--trust", trust, "--require-witness")

        metrics = (await control.http.get("/metrics")).text
        assert "hostler_audit_unwitnessed_checkpoints 0.0" in metrics
        assert "hostler_audit_witnessed_age_seconds NaN" not in metrics
        assert "hostler_audit_checkpoint_age_seconds NaN" not in metrics

    held = msgspec.json.decode(bundle.read_bytes(), type=Bundle)
    short = msgspec.structs.replace(held.nodes[a.node_id], receipts=held.nodes[a.node_id].receipts[:1])
    bundle.write_bytes(msgspec.json.encode(msgspec.structs.replace(held, nodes=held.nodes | {a.node_id: short})))
    cut = await asyncio.to_thread(hostler, "audit", "verify", bundle, "--trust", trust)
    assert cut.exit_code == 1
    assert f"{a.node_id}  receipt 1: receipts 1 to 1 are missing" in cut.output


async def test_a_witness_refuses_a_control_plane_that_was_rolled_back_and_forked(tmp_path: Path) -> None:
    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        node = await control.enroll("gpu-1")
        await work(control, node)
        await newest(control, 1)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    async with plane(tmp_path, config) as control:
        desk = await Desk.of(control)
        await work(control, node)
        await newest(control, 2)
        assert (await desk.witness()).exit_code == 0
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "copy", tmp_path / "state")
    async with plane(tmp_path, config) as control:
        desk = await Desk.of(control)
        done = await desk.witness()
        assert (done.exit_code, "[audit_rollback]" in done.output) == (1, True), done.output
        other = await control.enroll("gpu-2")
        await work(control, other)
        await newest(control, 2)
        done = await desk.witness()
        assert (done.exit_code, "[audit_fork]" in done.output) == (1, True), done.output
        assert (tmp_path / "witness.json.refused").exists()


async def test_a_node_that_is_taken_out_of_the_store_is_missed(tmp_path: Path) -> None:
    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        a, b = await control.enroll("gpu-1"), await control.enroll("gpu-2")
        await work(control, a, b)
        await newest(control, 2)
        assert (await (await Desk.of(control)).witness()).exit_code == 0
    with sqlite3.connect(config.store_path) as db:
        for table in ("receipts", "checkpoint_heads", "node_cursors"):
            db.execute(f"DELETE FROM {table} WHERE node_id = ?", (b.node_id,))
        db.execute("INSERT INTO node_cursors VALUES (?, 9, 9, 0, -1)", (b.node_id,))
    db.close()
    async with plane(tmp_path, config) as control:
        await work(control, a)
        await newest(control, 2)
        await until(lambda: _count(control, 2))
        done = await (await Desk.of(control)).witness()
        assert (done.exit_code, "[audit_rollback]" in done.output) == (1, True), done.output
        assert "2 were seen" in done.output


async def _count(control: Plane, wanted: int) -> bool:
    return control.rows("SELECT count(*) FROM checkpoints")[0][0] >= wanted


async def test_a_witness_without_a_network_works_on_files(tmp_path: Path) -> None:
    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        await work(control, await control.enroll("gpu-1"))
        await newest(control, 1)
        desk, shown, word = await Desk.of(control), tmp_path / "checkpoints.json", tmp_path / "word.json"
        assert (await desk.ok("audit", "checkpoints", "-o", shown))["checkpoints"] == 1
        assert (await desk.witness(shown)).exit_code == 2  # the countersignature needs a file
        assert (await desk.witness(shown, "-o", word)).exit_code == 0
        assert control.rows("SELECT count(*) FROM countersignatures") == [(0,)]
        assert (await desk.ok("audit", "countersign", word))["index"] == 0
        assert (await desk.ok("audit", "countersign", word))["index"] == 0  # twice is once
        assert control.rows("SELECT count(*) FROM countersignatures") == [(1,)]
        actions = control.rows("SELECT result FROM audit_logs WHERE action = 'checkpoint.countersign'")
        assert actions == [("accepted",)]
        (line,) = await desk.ok("audit", "log", "--action", "checkpoint.countersign")
        assert (line["before"], line["result"]) == (None, "accepted")
        assert set(line["after"]) == {"checkpoint", "keyid"}
        shown = await desk.run("audit", "log", "--limit", "1", "--output", "text")
        assert "+ checkpoint=" in shown.output


async def test_a_countersignature_that_is_no_witness_s_is_refused(tmp_path: Path) -> None:
    from hostler.pki.checkpoint import countersign, open_checkpoint
    from hostler.pki.keys import new_ed25519

    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        await work(control, await control.enroll("gpu-1"))
        await newest(control, 1)
        page = (await control.http.get(CHECKPOINTS)).json()
        dispatch = ceremony.load_signer(tmp_path / "pki/control/dispatch.key")
        witness = ceremony.load_signer(tmp_path / "witness.key")
        checkpoint = open_checkpoint(msgspec.json.encode(page["items"][0]["envelope"]), [dispatch.public])
        other = msgspec.structs.replace(checkpoint, at_ms=1)

        async def posted(document: bytes, index: int = 0) -> tuple[int, str]:
            answer = await control.http.post(f"{CHECKPOINTS}/{index}/countersignatures", content=document)
            return answer.status_code, answer.json().get("error_code", "")

        assert await posted(countersign(checkpoint, new_ed25519(), 1)) == (409, "untrusted_key")
        assert await posted(countersign(checkpoint, dispatch, 1)) == (409, "untrusted_key")
        assert await posted(countersign(other, witness, 1)) == (404, "not_found")
        assert await posted(countersign(checkpoint, witness, 1), index=1) == (422, "invalid_request")
        forged = msgspec.json.decode(countersign(checkpoint, witness, 1))
        forged["signatures"][0]["sig"] = msgspec.json.decode(countersign(other, witness, 1))["signatures"][0]["sig"]
        assert await posted(msgspec.json.encode(forged)) == (409, "bad_signature")
        assert control.rows("SELECT count(*) FROM countersignatures") == [(0,)]
        assert await posted(countersign(checkpoint, witness, 1)) == (201, "")


async def test_a_restart_goes_on_with_the_same_chain_of_checkpoints(tmp_path: Path) -> None:
    config = prepare(tmp_path, checkpoint_seconds=1)
    with_witness(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        node = await control.enroll("gpu-1")
        await work(control, node)
        await newest(control, 1)
    async with plane(tmp_path, config) as control:
        await asyncio.sleep(1.5)  # nothing has changed: nothing is made
        assert control.rows("SELECT count(*) FROM checkpoints") == [(1,)]
        await work(control, node)
        await newest(control, 2)
        assert (await (await Desk.of(control)).witness()).exit_code == 0
