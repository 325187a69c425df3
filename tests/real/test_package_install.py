"""SK-05: the real apt-get and dpkg, a signed archive on loopback, a root of its own. Never this machine's packages."""

import asyncio
import http.server
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome, StepContext, Truth
from hostler.agent.steps.package_install import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.package import Install
from hostler.wire.task import Policy
from support.archive import Archive, empty_root
from support.steps import Told, context_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]
ALLOWED = ("demo", "demo-data", "rival", "breaks")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    need("apt-get", "dpkg-deb", "gpg")
    need_root()
    with Archive(tmp_path_factory.mktemp("archive")) as made:
        made.add("demo", "1.0", depends="demo-data")
        made.add("demo", "2.0", depends="demo-data")
        made.add("demo-data", "1.0")
        made.add("rival", "1.0", conflicts="demo")
        made.add("lonely", "1.0", depends="not-there")
        made.publish()
        yield made


@dataclass
class Place:
    root: Path
    host: Host
    archive: Archive

    def step(self, *packages: str, told: Told | None = None, **more: Any) -> StepContext:
        """Packages as `name` or `name=version`."""
        allowed = more.pop("allowed", ALLOWED)
        context = {name: more.pop(name) for name in ("policy", "allowed_sources", "cancelled") if name in more}
        named = [dict(zip(("name", "version"), package.split("="), strict=False)) for package in packages]
        params = convert({"packages": named, "repositories": [self.archive.repository()], **more}, Install)
        return replace(context_of(params, self.host, told or Told(), **context), allowed_packages=allowed)

    async def apply(self, *packages: str, **more: Any) -> Outcome:
        return await KIND.apply(self.step(*packages, **more))

    async def refused(self, *packages: str, **more: Any) -> HostlerError:
        """The refusal, after which nothing has changed."""
        before = self.database()
        with pytest.raises(HostlerError) as caught:
            await KIND.apply(self.step(*packages, **more))
        assert self.database() == before
        return caught.value

    def database(self) -> str:
        return (self.root / "var/lib/dpkg/status").read_text()


@pytest.fixture
async def place(tmp_path: Path, archive: Archive) -> AsyncIterator[Place]:
    root = empty_root(tmp_path / "root")
    host = Host(root=root, spool=tmp_path / "spool")
    yield Place(root, host, archive)
    await host.close()


async def test_SK_05_a_pinned_version_comes_with_what_it_needs_and_the_second_run_changes_nothing(place: Place) -> None:
    first = await place.apply("demo=1.0")
    assert (first.changed, first.outputs["packages"]) == (True, {"demo": "1.0"})
    assert first.outputs["installed"] == ["demo", "demo-data"]
    assert (place.root / "usr/share/demo/version").read_text() == "1.0\n"
    before = place.database()
    second = await place.apply("demo=1.0")
    assert (second.changed, second.outputs["installed"]) == (False, [])
    assert place.database() == before


async def test_SK_05_without_a_version_what_is_there_stands(place: Place) -> None:
    await place.apply("demo=1.0")
    assert not (await place.apply("demo")).changed
    assert (await place.apply("demo=2.0")).outputs["upgraded"] == ["demo"]


async def test_SK_05_the_plan_names_each_package_and_installs_none(place: Place) -> None:
    changes = (await KIND.plan(place.step("demo=1.0"))).changes
    assert [(change.action, change.target, change.detail) for change in changes] == [
        ("install", "demo", "1.0"),
        ("install", "demo-data", "1.0"),
    ]
    assert place.database() == ""
    await place.apply("demo=1.0")
    (kept,) = (await KIND.plan(place.step("demo=1.0"))).changes
    assert (kept.action, kept.target) == ("keep", "demo")
    (raised,) = (await KIND.plan(place.step("demo=2.0"))).changes
    assert (raised.action, raised.detail) == ("upgrade", "1.0 -> 2.0")


async def test_SK_05_a_dependency_that_is_not_allowlisted_is_refused(place: Place) -> None:
    refusal = await place.refused("demo", allowed=("demo",))
    assert refusal.code == "package_not_allowed"
    assert "demo-data" in refusal.message


async def test_SK_05_a_removal_that_is_not_declared_is_refused(place: Place) -> None:
    await place.apply("demo=1.0")
    assert (await place.refused("rival")).code == "package_conflict"
    assert (await place.refused("rival", removes=["demo-data"])).code == "package_conflict"
    assert (await place.apply("rival", removes=["demo"])).outputs["removed"] == ["demo"]


async def test_SK_05_an_older_version_is_installed_only_where_that_is_said(place: Place) -> None:
    await place.apply("demo=2.0")
    await place.refused("demo=1.0")
    assert (await place.apply("demo=1.0", allow_downgrade=True)).outputs["packages"] == {"demo": "1.0"}


@pytest.mark.parametrize("package", ["demo=9.9", "absent", "lonely"])
async def test_SK_05_what_cannot_be_had_is_a_conflict_and_changes_nothing(place: Place, package: str) -> None:
    refusal = await place.refused(package, allowed=("demo", "absent", "lonely"))
    assert refusal.code == "package_conflict"


async def test_SK_05_an_archive_signed_by_another_key_is_not_believed(place: Place) -> None:
    other = place.archive.new_key(f"other-{place.root.parent.name}")
    refusal = await place.refused("demo", repositories=[place.archive.repository(signed_by=other)])
    assert refusal.code == "repository_untrusted"


async def test_SK_05_an_index_that_cannot_be_fetched_is_an_error_even_with_an_old_copy(place: Place) -> None:
    await place.apply("demo-data")
    dists = place.archive.site / "dists"
    dists.rename(dists.with_name("away"))
    try:
        assert (await place.refused("demo")).code == "repository_untrusted"
    finally:
        dists.with_name("away").rename(dists)


async def test_SK_05_an_archive_without_a_signature_is_refused(place: Place, tmp_path: Path) -> None:
    inrelease = place.archive.site / "dists/stable/InRelease"
    kept = inrelease.read_bytes()
    inrelease.unlink()
    try:
        assert (await place.refused("demo")).code == "repository_untrusted"
    finally:
        inrelease.write_bytes(kept)


async def test_SK_05_an_index_altered_after_it_was_signed_is_refused(place: Place) -> None:
    index = next((place.archive.site / "dists/stable/main").glob("*/Packages"))
    kept = index.read_bytes()
    index.write_bytes(kept.replace(b"Version: 2.0", b"Version: 3.0"))
    try:
        assert (await place.refused("demo")).code == "repository_untrusted"
    finally:
        index.write_bytes(kept)


async def test_SK_05_a_package_altered_after_it_was_signed_is_refused(place: Place) -> None:
    deb = place.archive.site / "pool/demo-data_1.0_all.deb"
    kept = deb.read_bytes()
    deb.write_bytes(kept[:-8] + b"altered!")
    try:
        assert (await place.refused("demo-data")).code == "exit_status"
    finally:
        deb.write_bytes(kept)


async def test_SK_05_a_source_outside_the_policy_or_the_definition_is_never_asked(place: Place) -> None:
    elsewhere = Policy(allowed_artifact_sources=("https://else.example",))
    assert (await place.refused("demo", policy=elsewhere)).code == "source_denied"
    assert (await place.refused("demo", allowed_sources=("https://else.example",))).code == "source_denied"
    own = Policy(allowed_artifact_sources=(place.archive.uri,))
    assert (await place.refused("demo", policy=own, repositories=[])).code == "source_denied"
    assert (await place.apply("demo", policy=own, allowed_sources=(place.archive.uri,))).changed


async def test_SK_05_K2_an_interrupted_dpkg_is_finished_first_and_that_is_said(place: Place) -> None:
    await place.apply("demo=1.0")
    status = place.root / "var/lib/dpkg/status"
    status.write_text(place.database().replace("install ok installed", "install ok unpacked"))
    assert (await KIND.probe(place.step("demo=1.0"))).truth is Truth.NOT_DONE
    told = Told()
    outcome = await place.apply("demo=1.0", told=told)
    assert (outcome.outputs["repaired"], outcome.changed) == (True, True)
    assert any("interrupted" in line for line in told.lines)
    found = await KIND.probe(place.step("demo=1.0"))
    assert found.truth is Truth.DONE
    assert not (await place.apply("demo=1.0")).outputs["repaired"]


async def test_SK_05_K1_the_database_tells_whether_it_was_done(place: Place) -> None:
    assert (await KIND.probe(place.step("demo=1.0"))).truth is Truth.NOT_DONE
    outcome = await place.apply("demo=1.0")
    found = await KIND.probe(place.step("demo=1.0"))
    assert found.truth is Truth.DONE
    assert found.outcome is not None
    assert found.outcome.outputs["packages"] == outcome.outputs["packages"]
    assert (await KIND.probe(place.step("demo=2.0"))).truth is Truth.NOT_DONE


async def test_SK_05_a_package_whose_script_cannot_run_fails_the_step(place: Place, archive: Archive) -> None:
    archive.add("breaks", "1.0", postinst="exit 7")
    archive.publish()
    with pytest.raises(HostlerError) as caught:
        await place.apply("breaks")
    assert caught.value.code == "exit_status"
    assert (await KIND.probe(place.step("breaks"))).truth is Truth.NOT_DONE


async def test_SK_05_a_cancelled_step_installs_nothing(place: Place) -> None:
    cancelled = asyncio.Event()
    cancelled.set()
    assert (await place.refused("demo", cancelled=cancelled)).code == "canceled"


async def test_SK_05_a_step_out_of_time_ends_with_a_timeout(place: Place) -> None:
    context = place.step("demo")
    late = replace(context, deadline=replace(context.deadline, at=0.0))
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(late)
    assert caught.value.code == "timeout"
    assert place.database() == ""


async def test_SK_05_a_root_without_dpkg_is_incompatible(place: Place) -> None:
    shutil.rmtree(place.root / "var/lib/dpkg")
    with pytest.raises(HostlerError) as caught:
        await KIND.plan(place.step("demo"))
    assert caught.value.code == "incompatible"


async def test_AR_06_an_archive_that_sends_us_elsewhere_is_not_followed(place: Place, archive: Archive) -> None:
    asked: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("location", archive.uri + self.path)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        repository = archive.repository(uri=f"http://127.0.0.1:{server.server_address[1]}")
        refusal = await place.refused("demo", repositories=[repository])
        server.shutdown()
        thread.join(5)
    assert asked
    assert refusal.code == "repository_untrusted"
