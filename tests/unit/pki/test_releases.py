"""LC-13, U3: versions, the authority to go down, and metadata as it travels."""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from conftest import need
from hostler.pki.release_files import newest
from hostler.pki.releases import (
    MAX_DOCUMENT_BYTES,
    may_install,
    pack_metadata,
    parse_metadata,
    version_key,
)
from support.refusals import refused
from support.releases import House, release

# in this order, as dpkg has it
ORDERED = [
    "0.0.1~rc1", "0.0.1", "0.1.0~alpha1", "0.1.0~alpha.1", "0.1.0~alpha.2", "0.1.0~alpha.10", "0.1.0~beta",
    "0.1.0~beta2", "0.1.0~beta10", "0.1.0~rc1", "0.1.0~rc1.2", "0.1.0~rc2", "0.1.0", "0.1.1", "0.2.0", "0.10.0",
    "1.0.0", "999999.0.0",
]  # fmt: skip


def test_versions_are_ordered_as_dpkg_orders_them() -> None:
    need("dpkg")
    assert sorted(ORDERED, key=version_key) == ORDERED
    for low, high in itertools.pairwise(ORDERED):
        said = ["dpkg", "--compare-versions", f"{low}-1~deb12u1", "lt", f"{high}-1~deb12u1"]
        assert subprocess.run(said, check=False).returncode == 0, (low, high)


@pytest.mark.parametrize(
    "version",
    ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-1", "01.0.0", "1.0.0~", "1.0.0~RC1", "1.0.0~a..b", "1.0.0+git",
     "1.0.0\n", "１.0.0", "1000000.0.0", "1.0.0~" + "a" * 60],
)  # fmt: skip
def test_what_is_no_version(version: str) -> None:
    assert refused(version_key, version) == "invalid_request"


@pytest.mark.parametrize("running", ["0.9.0", "1.0.0~rc1", "1.0.0"])
def test_LC_13_up_and_the_same_again_need_no_authority(running: str) -> None:
    may_install(release("1.0.0"), running)


def test_U3_down_only_where_the_release_names_what_runs() -> None:
    signed = release("1.0.0", replaces=("1.0.1", "2.0.0~rc1"))
    may_install(signed, "1.0.1")
    may_install(signed, "2.0.0~rc1")
    for running in ("1.0.2", "2.0.0", "1.1.0"):
        assert refused(may_install, signed, running) == "downgrade_denied"
    assert refused(may_install, release("1.0.0~rc1"), "1.0.0") == "downgrade_denied"
    assert refused(may_install, release("1.0.0"), "unknown") == "invalid_request"


def repository(directory: Path, metadata: dict[str, bytes]) -> Path:
    folder = directory / "metadata"
    folder.mkdir(parents=True)
    for role, data in metadata.items():
        version = json.loads(data)["signed"]["version"]
        (folder / ("timestamp.json" if role == "timestamp" else f"{version}.{role}.json")).write_bytes(data)
    return directory


def test_metadata_travels_as_one_document(tmp_path: Path) -> None:
    house = House()
    good = house.publish()
    document = pack_metadata(repository(tmp_path, good))
    assert parse_metadata(document) == good == newest(tmp_path)
    assert len(document) < MAX_DOCUMENT_BYTES
    assert house.take(parse_metadata(document)).releases == house.releases


def test_the_newest_root_travels(tmp_path: Path) -> None:
    house = House()
    repository(tmp_path, house.publish())
    for number in (2, 10):
        house.number["root"] = number
        (tmp_path / "metadata" / f"{number}.root.json").write_bytes(house.publish()["root"])
    assert json.loads(newest(tmp_path)["root"])["signed"]["version"] == 10


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("timestamp.json", None),
        ("timestamp.json", b"{}"),
        ("timestamp.json", b"\xff"),
        ("timestamp.json", b'{"signed":{"meta":{"snapshot.json":{"version":"../../x"}}}}'),
        ("timestamp.json", b'{"signed":{"meta":{"snapshot.json":{"version":7}}}}'),
        ("timestamp.json", b" " * (MAX_DOCUMENT_BYTES + 1)),
        ("1.snapshot.json", None),
        ("1.targets.json", None),
        ("1.root.json", None),
    ],
)
def test_an_incomplete_repository_is_not_packed(tmp_path: Path, name: str, data: bytes | None) -> None:
    repository(tmp_path, House().publish())
    path = tmp_path / "metadata" / name
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    assert refused(pack_metadata, tmp_path) == "release_untrusted"
    shutil.rmtree(tmp_path / "metadata")
    assert refused(pack_metadata, tmp_path) == "release_untrusted"


def test_A6_a_timestamp_does_not_lead_out_of_the_repository(tmp_path: Path) -> None:
    repository(tmp_path / "repo", House().publish())
    folder = tmp_path / "repo/metadata"
    (tmp_path / "other").mkdir()
    (folder / "1.snapshot.json").rename(tmp_path / "other/x.snapshot.json")
    bent = json.loads((folder / "timestamp.json").read_bytes())
    bent["signed"]["meta"]["snapshot.json"]["version"] = "../../other/x"
    (folder / "timestamp.json").write_text(json.dumps(bent))
    assert refused(pack_metadata, tmp_path / "repo") == "release_untrusted"


def test_no_file_of_a_repository_is_read_without_end(tmp_path: Path) -> None:
    path = repository(tmp_path, House().publish()) / "metadata/timestamp.json"
    good = path.read_bytes()
    path.write_bytes(good + b" " * (MAX_DOCUMENT_BYTES - len(good)))
    assert newest(tmp_path)
    path.write_bytes(good + b" " * MAX_DOCUMENT_BYTES)
    assert refused(newest, tmp_path) == "release_untrusted"


def test_metadata_beyond_the_bound_is_neither_packed_nor_parsed(tmp_path: Path) -> None:
    house = House(releases=tuple(release(f"1.0.{n}", notes="x" * 990) for n in range(400)))
    assert refused(pack_metadata, repository(tmp_path, house.publish())) == "release_untrusted"
    assert refused(house.take, house.publish()) == "release_untrusted"
    small = pack_metadata(repository(tmp_path / "small", House().publish()))
    assert parse_metadata(small + b" " * (MAX_DOCUMENT_BYTES - len(small)))
    assert refused(parse_metadata, small + b" " * MAX_DOCUMENT_BYTES) == "release_untrusted"


@pytest.mark.parametrize("change", [{"extra": ""}, {"format": 2}, {"root": None}, {"root": 1}, {"targets": ...}])
def test_a_document_that_our_own_tools_would_not_write(tmp_path: Path, change: dict[str, object]) -> None:
    good = msgspec.json.decode(pack_metadata(repository(tmp_path, House().publish()))) | change
    changed = {name: value for name, value in good.items() if value is not ...}
    assert refused(parse_metadata, msgspec.json.encode(changed)) == "release_untrusted"


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"[" * 200_000])
def test_bytes_that_are_no_document(data: bytes) -> None:
    assert refused(parse_metadata, data) == "release_untrusted"


_IDLE = (
    "import sys\n"
    "for name in {modules!r}: __import__(name)\n"
    "print(sorted({{'tuf', 'securesystemslib', 'urllib3', 'requests'}} & set(sys.modules)))"
)


def loaded_by(*modules: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _IDLE.format(modules=modules)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_an_idle_agent_and_control_plane_load_no_update_framework() -> None:
    """It takes a quarter of a second and 10 MB; only who verifies or signs a release needs it."""
    assert loaded_by("hostler.agent.daemon", "hostler.agent.pipeline", "hostler.agent.steps.table") == "[]"
    assert loaded_by("hostler.agent.upgrade.unpack", "hostler.pki.releases", "hostler.pki.release_trust") == "[]"
    assert loaded_by("hostler.control.service", "hostler.control.assembly") == "[]"
    assert loaded_by("hostler.cli.releases") == "[]"


@pytest.mark.parametrize(
    ("module", "call"),
    [("hostler.agent.main", "main"), ("hostler.control.main", "main"), ("hostler.cli.main", "main")],
)
def test_help_and_version_load_no_update_framework(module: str, call: str) -> None:
    code = (
        f"import sys\nfrom {module} import {call}\n"
        "for word in ('--help', '--version'):\n"
        f"    try: {call}([word])\n"
        "    except SystemExit: pass\n"
        "print(sorted({'tuf', 'securesystemslib', 'urllib3', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert " (commit " in done.stdout
