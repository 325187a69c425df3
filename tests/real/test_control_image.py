"""PG-05: the control plane's image serves what its package serves, with the same configuration."""

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conftest import need, need_root, need_slow
from hostler.base.version import __version__
from hostler.cli.demo_files import program
from support.debs import BOOKWORM, ROOT, built
from support.dockerd import Dockerd, dockerd
from support.house import House, open_house
from support.machines import debian_tree

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("docker")]

IMAGE = f"hostler-control:{__version__}"


def build(out: Path) -> Path:
    need("dpkg-deb", "debootstrap", "git")
    need_root()
    command = [sys.executable, "packaging/build_image.py", "--deb", str(built("hostler-control")), "--level", "0"]
    done = subprocess.run(
        [*command, "--base", str(debian_tree(BOOKWORM)), "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Path(done.stdout.split()[0])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def house(image: Path) -> Iterator[House]:
    with dockerd() as engine:
        assert engine.call("POST", "/images/load?quiet=1", image.read_bytes()) == 200
        yield from _served(engine)


def _served(engine: Dockerd) -> Iterator[House]:
    def programs(name: str) -> list[str]:
        inside = [sys.executable, str(ROOT / "tests/support/in_image.py"), str(engine.socket), IMAGE]
        return inside if name == "hostler-control" else [program(name)]

    with open_house(programs=programs) as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def test_PG_05_an_agent_enrols_at_the_image_and_its_receipts_verify(house: House) -> None:
    operation = house.finished(house.submit("node.smoke.noop@v1", {}, nodes=("a",)))
    assert operation["status"] == "succeeded", house.logs()
    assert house.receipts(operation["operation_id"])


def test_PG_05_what_was_decided_outlives_the_container(house: House) -> None:
    before = house.finished(house.submit("node.smoke.noop@v1", {}, nodes=("a",)))
    house.stop("control")
    house.serve()
    assert house.operation(before["operation_id"])["status"] == "succeeded"
    house.until(lambda: house.node("a")["connection"] == "connected", "a")
    assert house.finished(house.submit("node.smoke.noop@v1", {}, nodes=("a",)))["status"] == "succeeded"


def test_PG_05_the_image_runs_as_nobody_we_know_and_holds_no_key(image: Path) -> None:
    with tarfile.open(image) as file:
        read = {name: file.extractfile(name).read() for name in ("index.json", "manifest.json")}  # type: ignore[union-attr]
        (saved,) = msgspec.json.decode(read["manifest.json"])
        config = msgspec.json.decode(file.extractfile(saved["Config"]).read())  # type: ignore[union-attr]
        layers = [tarfile.open(fileobj=file.extractfile(name)) for name in saved["Layers"]]  # noqa: SIM115
        names = [name for layer in layers for name in layer.getnames()]
    assert config["config"]["User"] == "61112:61112"
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == __version__
    assert "usr/bin/hostler-control" in names
    assert [name for name in names if name.startswith("etc/hostler-control/")] == ["etc/hostler-control/control.toml"]
    assert [name for name in names if name.startswith("var/lib/hostler-control/")] == []
    assert not {"etc/resolv.conf", "etc/hostname", "etc/machine-id"} & set(names)


def test_PG_06_two_images_of_one_package_are_the_same_bytes(image: Path, tmp_path: Path) -> None:
    need_slow("a second image takes as long as the first")
    assert build(tmp_path).read_bytes() == image.read_bytes()
