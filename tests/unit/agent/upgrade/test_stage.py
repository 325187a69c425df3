"""LC-12, LC-13, PG-06, U3: only what enough update keys have signed comes onto the disk, whole, or nothing does."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.agent_upgrade_stage import KIND
from hostler.agent.steps.contract import Outcome
from hostler.agent.upgrade import slots, stage
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.params.upgrade import Stage
from support.blob_server import Blob, BlobServer, Reply, cut, honest
from support.certs import make_server_certs
from support.keys import new_ed25519
from support.releases import COMMIT, House, agent_package, digest, release
from support.slots import places_in
from support.steps import Told, context_of

PACKAGE, METADATA = "/hostler-agent.deb", "/releases.json"


class Node:
    """A node that runs version 1.0.0, and a publisher whose releases it is told of."""

    def __init__(self, root: Path, server: BlobServer) -> None:
        self.places: Places = places_in(root)
        self.server, self.house, self.told = server, House(), Told()
        self.now_ms = (
            SystemClock().now_ms()
        )  # of every publication: the root is made anew each time, and has to be the same
        trust: Any = SimpleNamespace(keyset=self.house.keyset, check_fresh=lambda now_ms: None)
        self.installed = Installed(self.places, PACKAGED, lambda: trust, lambda: "1")
        self.settings = FetchSettings(
            ca_file=str(server.certs.ca), backoff_base_seconds=0.005, disk_reserve_bytes=1, min_rate_bytes_per_s=1
        )

    def publish(self, version: str, *, package: bytes | None = None, **changes: Any) -> Stage:
        """Signs and serves it; → what the task would say."""
        data = package if package is not None else agent_package(version)
        named = release(version, size=len(data), sha256=digest(data), **changes)
        self.house.releases = (named, *(one for one in self.house.releases if one.version != version))
        self.serve(self.house.publish(self.now_ms))
        self.server.blobs[PACKAGE] = Blob(data)
        return Stage(
            version=version,
            url=self.server.url(PACKAGE),
            sha256=named.sha256,
            size_bytes=named.size,
            metadata_url=self.server.url(METADATA),
            suite="bookworm",
        )

    def serve(self, metadata: dict[str, bytes]) -> None:
        self.server.blobs[METADATA] = Blob(
            msgspec.json.encode({"format": 1} | {role: data.decode() for role, data in metadata.items()})
        )

    def stage(self, wanted: Stage, **more: Any) -> Outcome:
        host = Host(root=self.places.base.parent, fetch=self.settings)

        async def run() -> Outcome:
            try:
                return await KIND.apply(context_of(wanted, host, self.told, installed=self.installed, **more))
            finally:
                await host.close()

        return asyncio.run(run())

    def refused(self, wanted: Stage, **more: Any) -> str:
        before = self.present()
        with pytest.raises(HostlerError) as caught:
            self.stage(wanted, **more)
        assert self.present() == before, "something was left"
        return caught.value.code

    def present(self) -> set[str]:
        return {one.name for one in slots.every(self.places)} | {
            path.name for path in self.places.slots.iterdir() if path.is_dir()
        }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with BlobServer(make_server_certs(tmp_path / "tls")) as server:
        yield Node(tmp_path, server)


def test_LC_13_a_signed_release_is_put_beside_the_one_that_runs_and_found_there_the_next_time(node: Node) -> None:
    wanted = node.publish("1.1.0")
    done = node.stage(wanted)
    slot = f"1.1.0-{COMMIT[:8]}"
    assert done.outputs == {"version": "1.1.0", "commit": COMMIT, "slot": slot}
    assert done.changed
    assert slots.damage(node.places, slot) == ()
    assert slots.current(node.places) == PACKAGED
    assert list(node.places.home(slot).rglob("*.pyc")), "it would be compiled while it is on trial"
    assert not list(node.places.fetched.iterdir())
    asked = len(node.server.requests)
    again = node.stage(wanted)
    assert (again.outputs, again.changed) == (done.outputs, False)
    assert len(node.server.requests) == asked + 1, "only the metadata is asked for again"


def test_a_version_is_there_for_the_sessions_user_too_and_its_bytecode_names_its_final_place(node: Node) -> None:
    before = os.umask(0o077)
    try:
        node.stage(node.publish("1.1.0"))
    finally:
        os.umask(before)
    for path in (node.places.slots, *node.places.slots.rglob("*")):
        if not path.is_symlink() and not path.name.startswith("."):
            assert path.stat().st_mode & 0o055 == (0o055 if path.is_dir() else path.stat().st_mode & 0o011 | 0o044), (
                path
            )
    (compiled,) = node.places.slots.rglob("*.pyc")
    assert f"slots/1.1.0-{COMMIT[:8]}/".encode() in compiled.read_bytes()
    assert b".new-" not in compiled.read_bytes()


def test_LC_10_a_damaged_slot_is_staged_anew_beside_it(node: Node) -> None:
    wanted = node.publish("1.1.0")
    first = node.stage(wanted).outputs["slot"]
    (node.places.home(first) / "bin/hostler-agent").write_bytes(b"changed")
    slots.switch(node.places, first)
    second = node.stage(wanted)
    assert second.changed
    assert second.outputs["slot"] == f"{first}.2"
    assert slots.damage(node.places, f"{first}.2") == ()


def test_LC_12_a_package_with_another_digest_is_refused(node: Node) -> None:
    wanted = node.publish("1.1.0")
    node.server.blobs[PACKAGE] = Blob(bytes(wanted.size_bytes))
    assert node.refused(wanted) == "digest_mismatch"


def test_LC_12_a_task_that_names_another_package_than_was_signed_is_refused(node: Node) -> None:
    """The control plane alone cannot have anything installed (PG-06)."""
    wanted = node.publish("1.1.0")
    evil = agent_package("1.1.0", {"bin/hostler-agent": b"evil"})
    node.server.blobs[PACKAGE] = Blob(evil)
    named = msgspec.structs.replace(wanted, sha256=digest(evil), size_bytes=len(evil))
    assert node.refused(named) == "release_untrusted"
    assert not [asked for asked in node.server.requests if asked.path == PACKAGE]


def test_PG_06_releases_that_other_keys_signed_are_refused(node: Node) -> None:
    wanted = node.publish("1.1.0")
    stranger = House(update=[new_ed25519()], releases=node.house.releases)
    node.serve(stranger.publish(node.now_ms))
    assert node.refused(wanted) == "release_untrusted"


def test_U3_metadata_of_before_is_refused(node: Node) -> None:
    old = node.publish("1.1.0")
    before = node.server.blobs[METADATA]
    node.stage(node.publish("1.2.0"))
    node.server.blobs[METADATA] = before
    assert node.refused(old) == "release_rollback"


def test_U3_metadata_that_has_expired_is_refused(node: Node) -> None:
    wanted = node.publish("1.1.0")
    node.serve(node.house.publish(node.now_ms - 40 * 86_400_000))
    assert node.refused(wanted) == "release_stale"


def test_U3_down_only_by_authority(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "__version__", "2.0.0")
    assert node.refused(node.publish("1.1.0")) == "downgrade_denied"
    assert node.stage(node.publish("1.2.0", replaces=("2.0.0",))).outputs["version"] == "1.2.0"


def test_a_package_that_says_something_else_of_itself_is_refused(node: Node) -> None:
    assert node.refused(node.publish("1.1.0", package=agent_package("1.0.9"))) == "release_untrusted"


def test_a_release_that_is_not_there_is_refused(node: Node) -> None:
    wanted = node.publish("1.1.0")
    assert node.refused(msgspec.structs.replace(wanted, version="1.9.0")) == "release_unknown"
    assert node.refused(msgspec.structs.replace(wanted, suite="trixie")) == "release_unknown"


def test_a_release_for_another_debian_is_not_installed_here(node: Node) -> None:
    wanted = node.publish("1.3.0", package=agent_package("1.3.0", suite="trixie"), suite="trixie")
    assert node.refused(msgspec.structs.replace(wanted, suite="trixie")) == "release_unknown"


def test_a_url_that_has_run_out_and_one_that_is_not_allowed_are_refused(node: Node) -> None:
    wanted = node.publish("1.1.0")
    del node.server.blobs[PACKAGE]
    assert node.refused(wanted) in ("bad_response", "source_denied", "not_found", "source_unreachable")
    assert node.refused(wanted, allowed_sources=("https://elsewhere.example/",)) == "source_denied"


def test_a_transfer_that_breaks_off_goes_on_where_it_stood(node: Node) -> None:
    wanted = node.publish("1.1.0")
    node.server.faults += [lambda reply, asked, blob: reply, cut(400)]
    assert node.stage(wanted).changed


def test_a_disk_without_room_is_left_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the slot, that is: the package alone would have room."""
    wanted = node.publish("1.1.0")
    monkeypatch.setattr("hostler.agent.upgrade.stage.ROOM_FACTOR", 1 << 40)
    assert node.refused(wanted) == "disk_full"
    assert not [asked for asked in node.server.requests if asked.path == PACKAGE], "it is known before"


def test_an_agent_that_runs_from_no_package_refuses_and_says_so(node: Node) -> None:
    wanted = node.publish("1.1.0")
    for installed in (None, Installed(node.places, "", node.installed.trust, node.installed.serial)):
        node.installed = installed  # type: ignore[assignment]
        assert node.refused(wanted) == "not_packaged"


def test_a_tenant_of_the_node_does_not_replace_its_agent(node: Node) -> None:
    wanted = node.publish("1.1.0")
    assert node.refused(wanted, allocation_id="alc_1") == "local_policy_denied"
    assert node.stage(wanted, allocation_id="alc_1", sees_all_tasks=True).changed


def test_what_a_killed_stage_left_is_cleared_and_never_taken_for_a_slot(node: Node) -> None:
    wanted = node.publish("1.1.0")
    left = node.places.slots / f".new-1.1.0-{COMMIT[:8]}"
    left.mkdir()
    (left / "manifest.json").write_text("half")
    half = node.places.slots / f".1.1.0-{COMMIT[:8]}.ready.json.77.new"
    half.write_text("half")
    node.places.fetched.joinpath(f"{wanted.sha256}.deb").write_bytes(b"half")
    assert slots.every(node.places)[1:] == ()
    assert node.stage(wanted).changed
    assert not left.exists()
    assert not half.exists()


def test_A5_packages_that_nobody_fetches_to_the_end_do_not_fill_the_disk(node: Node) -> None:
    """Each of them breaks off, and another version is wanted the next time."""
    for version in ("1.1.0", "1.2.0"):
        node.server.faults += [honest, cut(400), lambda reply, asked, blob: Reply(403, {})]
        assert node.refused(node.publish(version)) == "source_denied"
        assert [path.stat().st_size for path in node.places.fetched.iterdir()] == [400], "it may go on where it stood"
    node.stage(node.publish("1.3.0"))
    assert not list(node.places.fetched.iterdir())
