"""PG-06: a node proves that its tree is what was built."""

import os
from pathlib import Path

import msgspec
import pytest

from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError
from hostler.pki.manifest import Manifest, differences, parse_manifest
from support.releases import FILES, UNIT, manifest_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """As dpkg installs it: a manifest, the files, the link; the units are elsewhere."""
    home = tmp_path / "home"
    for path, data in FILES.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(data)
    (home / "bin/python3").symlink_to("../../../bin/python3")
    (home / "manifest.json").write_bytes(canonical_json(manifest_of()))
    (tmp_path / "units").mkdir()
    (tmp_path / "units/hostler-agent.service").write_bytes(UNIT)
    (tmp_path / "units/other.service").write_bytes(b"of another package")
    return home


def test_a_tree_as_it_was_built(home: Path) -> None:
    manifest = parse_manifest((home / "manifest.json").read_bytes())
    assert differences(home, manifest) == ()
    assert differences(home, manifest, units=home.parent / "units") == ()


def test_PG_06_every_change_is_found(home: Path) -> None:
    main = next(path for path in FILES if path.endswith("main.py"))
    (home / main).write_bytes(b"print('other')\n")
    (home / "lib/sitecustomize.py").write_bytes(b"")
    (home / "lib/pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(home / "lib/pipe")
    (home / "bin/hostler-agent").unlink()
    (home / "bin/hostler-agent").symlink_to("/bin/true")
    (home / "bin/python3").unlink()
    (home / "bin/python3").symlink_to("/tmp/python3")
    (home.parent / "units/hostler-agent.service").write_bytes(b"[Service]\nExecStart=/bin/sh\n")
    found = differences(home, manifest_of(), units=home.parent / "units")
    assert found == (
        *("bin/hostler-agent", "bin/python3", "lib/pipe", main, "lib/sitecustomize.py"),
        "units/hostler-agent.service",
    )
    (home.parent / "units/hostler-agent.service").unlink()
    assert "units/hostler-agent.service" in differences(home, manifest_of(), units=home.parent / "units")


def test_compiled_files_are_passed_over_only_where_dpkg_compiles(home: Path) -> None:
    cached = home / "lib/__pycache__"
    cached.mkdir()
    (cached / "main.cpython-311.pyc").write_bytes(b"evil")
    assert differences(home, manifest_of(), bytecode=True) == ()
    assert differences(home, manifest_of()) == ("lib/__pycache__/main.cpython-311.pyc",)


def test_an_unpacked_tree_leads_to_the_system_s_python(home: Path) -> None:
    (home / "bin/python3").unlink()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    assert differences(home, manifest_of()) == ()
    assert differences(home, manifest_of(links={})) == ("bin/python3",)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{}",
        b"[]",
        canonical_json(msgspec.to_builtins(manifest_of()) | {"extra": 1}),
        canonical_json(manifest_of(files={"bin/hostler-agent": "0" * 63})),
        canonical_json(manifest_of(files={"bin/hostler-agent": "0" * 64, "/etc/passwd": "0" * 64})),
        canonical_json(manifest_of(files={"bin/hostler-agent": "0" * 64, "manifest.json": "0" * 64})),
        canonical_json(manifest_of(links={"bin/../../x": "y"})),
        canonical_json(manifest_of(units={"hostler.conf": "0" * 64})),
        canonical_json(manifest_of(launcher="bin/sh")),
    ],
    ids=range(10),
)
def test_what_the_build_would_not_write(broken: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        parse_manifest(broken)
    assert caught.value.code == "release_untrusted"
    assert isinstance(parse_manifest(canonical_json(manifest_of())), Manifest)
