"""SK-01, AR-02, A4, A7: pulls from a real registry, by digest, with and without tokens."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.oci.room import MARKER
from hostler.agent.steps.artifact_pull_oci import KIND
from hostler.agent.steps.contract import Truth
from hostler.base.errors import HostlerError
from hostler.wire.task import Policy
from support.certs import ServerCerts, make_server_certs
from support.pulling_oci import OciPuller
from support.registry import OCI_INDEX, OCI_MANIFEST, Registry, TokenServer, entry, layer, registry, sha

pytestmark = pytest.mark.real
WEIGHTS = bytes(range(256)) * 4000
FILES = {"model.bin": WEIGHTS, "conf/run.json": b'{"a": 1}\n'}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def open_registry(tmp_path_factory: pytest.TempPathFactory, certs: ServerCerts) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("open"), certs) as started:
        yield started


@pytest.fixture
def puller(tmp_path: Path, certs: ServerCerts) -> OciPuller:
    return OciPuller(tmp_path, certs.ca)


async def failure(puller: OciPuller, reference: str, **given: object) -> str:
    with pytest.raises(HostlerError) as failed:
        await puller.pull(reference, **given)
    return failed.value.code


async def test_AR_02_the_files_of_a_bundle_arrive_under_their_titles(
    puller: OciPuller, open_registry: Registry
) -> None:
    digest = open_registry.bundle("team/a", FILES)
    reference = f"{open_registry.name}/team/a@{digest}"
    outcome = await puller.pull(reference, place="files")
    assert {str(p.relative_to(puller.place)): p.read_bytes() for p in puller.place.rglob("*") if p.is_file()} == {
        **FILES,
        MARKER: (puller.place / MARKER).read_bytes(),
    }
    assert outcome.outputs["digest"] == digest
    assert outcome.outputs["media_type"] == "application/vnd.example.bundle"
    assert outcome.outputs["bytes_transferred"] == outcome.outputs["size_bytes"] == len(WEIGHTS) + 9 + 2
    assert outcome.changed
    assert not puller.leftovers
    again = await puller.pull(reference, place="files")
    assert not again.changed
    assert again.outputs["bytes_transferred"] == 0
    assert (await puller.probe(reference, place="files")).truth is Truth.DONE


async def test_SK_01_an_image_becomes_a_layout_that_other_tools_read(
    puller: OciPuller, open_registry: Registry
) -> None:
    digest = open_registry.image("team/a", layer(("etc/motd", b"hello\n")))
    outcome = await puller.pull(f"{open_registry.name}/team/a@{digest}")
    index = json.loads((puller.place / "index.json").read_bytes())
    assert [one["digest"] for one in index["manifests"]] == [digest]
    for blob in (puller.place / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    assert len(list((puller.place / "blobs" / "sha256").iterdir())) == 3
    assert outcome.outputs["media_type"] == OCI_MANIFEST


async def test_layers_are_unpacked_one_over_the_other(puller: OciPuller, open_registry: Registry) -> None:
    below = layer(("opt/app/run", b"v1"), ("opt/app/old", b"gone"), ("opt/keep", b"kept"))
    above = layer(
        ("opt/app/.wh.old", b""), (entry("opt/app/run", mode=0o755), b"v2"), (entry("l", b"2", linkname="opt"), b"")
    )
    digest = open_registry.image("team/a", below, above)
    reference = f"{open_registry.name}/team/a@{digest}"
    await puller.pull(reference, place="unpacked")
    assert (puller.place / "opt/app/run").read_bytes() == b"v2"
    assert (puller.place / "opt/app/run").stat().st_mode & 0o777 == 0o755
    assert not (puller.place / "opt/app/old").exists()
    assert (puller.place / "l").readlink() == Path("opt")
    assert (puller.place / "opt/keep").read_bytes() == b"kept"
    assert not (await puller.pull(reference, place="unpacked")).changed


async def test_a_new_digest_replaces_the_directory_in_one_step_and_a_foreign_directory_is_left(
    puller: OciPuller, open_registry: Registry
) -> None:
    first, second = (open_registry.bundle("team/a", {"f": body}) for body in (b"one", b"two"))
    await puller.pull(f"{open_registry.name}/team/a@{first}", place="files")
    await puller.pull(f"{open_registry.name}/team/a@{second}", place="files")
    assert (puller.place / "f").read_bytes() == b"two"
    assert not puller.leftovers
    theirs = puller.root / "srv" / "theirs"
    theirs.mkdir()
    (theirs / "precious").write_bytes(b"x")
    assert (
        await failure(puller, f"{open_registry.name}/team/a@{first}", place="files", path="/srv/theirs")
        == "path_denied"
    )
    assert (theirs / "precious").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["team/a:latest", "team/a", "team/a@sha256:12", "team/a:v1@sha256:" + "0" * 64])
async def test_SK_01_a_tag_is_refused(puller: OciPuller, open_registry: Registry, name: str) -> None:
    with pytest.raises(HostlerError) as failed:
        await KIND.plan(puller.context(f"{open_registry.name}/{name}"))
    assert failed.value.code == "digest_required"


async def test_SK_01_a_digest_that_the_registry_lacks_is_not_found(puller: OciPuller, open_registry: Registry) -> None:
    open_registry.bundle("team/a", FILES)
    assert await failure(puller, f"{open_registry.name}/team/a@sha256:{'0' * 64}") == "source_unreachable"


async def test_A4_the_platform_is_chosen_from_the_index_and_named(puller: OciPuller, open_registry: Registry) -> None:
    of = {
        arch: open_registry.image("team/a", layer(("arch", arch.encode())), architecture=arch)
        for arch in ("arm64", "amd64")
    }
    manifests = []
    for arch, digest in of.items():
        _, _, body = open_registry.call("GET", f"/v2/team/a/manifests/{digest}", Accept=OCI_MANIFEST)
        assert sha(body) == digest
        platform = {"os": "linux", "architecture": arch}
        manifests.append({"mediaType": OCI_MANIFEST, "digest": digest, "size": len(body), "platform": platform})
    index = open_registry.manifest("team/a", {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests})
    reference = f"{open_registry.name}/team/a@{index}"
    outcome = await puller.pull(reference, place="unpacked", platform="linux/amd64")
    assert outcome.outputs["digest"] == of["amd64"]
    assert outcome.outputs["reference"] == reference
    assert (puller.place / "arch").read_bytes() == b"amd64"
    assert await failure(puller, reference, platform="linux/riscv64") == "incompatible"


async def test_AR_06_a_repository_outside_the_list_is_not_asked(puller: OciPuller, open_registry: Registry) -> None:
    digest = open_registry.bundle("team/b", FILES)
    policy = Policy(allowed_artifact_sources=(f"https://{open_registry.name}/v2/team/a",))
    assert await failure(puller, f"{open_registry.name}/team/b@{digest}", policy=policy) == "source_denied"


async def test_AR_07_the_policy_bounds_the_whole_artifact(puller: OciPuller, open_registry: Registry) -> None:
    digest = open_registry.bundle("team/a", FILES)
    policy = Policy(max_artifact_size_bytes=len(WEIGHTS))
    assert await failure(puller, f"{open_registry.name}/team/a@{digest}", policy=policy) == "too_large"
    assert not puller.place.exists()


async def test_A7_what_is_here_already_is_not_given_to_whoever_may_not_pull_it(
    puller: OciPuller, tmp_path: Path, certs: ServerCerts
) -> None:
    """Tenant A pulls with its login; B asks for the same digest at the same place, without one and with a wrong one."""
    with TokenServer(certs, {"a": "right"}).running() as tokens, registry(tmp_path, certs, tokens) as private:
        digest = private.bundle("team/private", FILES)
        reference = f"{private.name}/team/private@{digest}"
        login = {"registry": f"https://{private.name}", "username": "a", "password": "right"}
        sources = (f"https://{private.name}", f"https://localhost:{tokens.port}/token")
        await puller.pull(reference, place="files", login=login, allowed_sources=sources)
        assert (puller.place / "model.bin").read_bytes() == WEIGHTS
        assert "scope=repository:team/private:pull" in tokens.asked[-1][0]
        assert await failure(puller, reference, place="files", allowed_sources=sources) == "source_denied"
        wrong = login | {"password": "wrong"}
        assert await failure(puller, reference, place="files", login=wrong, allowed_sources=sources) == "source_denied"
        assert not (await puller.pull(reference, place="files", login=login, allowed_sources=sources)).changed
        assert "right" not in json.dumps(puller.told.lines + puller.told.saved)


async def test_a_credential_is_shown_to_no_token_server_that_no_list_names(
    puller: OciPuller, tmp_path: Path, certs: ServerCerts
) -> None:
    with TokenServer(certs, {"a": "right"}).running() as tokens, registry(tmp_path, certs, tokens) as private:
        digest = private.bundle("team/private", FILES)
        login = {"registry": f"https://{private.name}", "username": "a", "password": "right"}
        assert await failure(puller, f"{private.name}/team/private@{digest}", login=login) == "source_denied"
        assert tokens.asked == []
        other = login | {"registry": "https://other.example"}
        assert await failure(puller, f"{private.name}/team/private@{digest}", login=other) == "credential_mismatch"
