"""RS-08, OD-29: every capability key, from recorded trees; hostile trees change nothing but the values."""

import os
import random
import time
from pathlib import Path

import pytest

from hostler.agent.capabilities import detect
from hostler.agent.hardware.gpu import gpus, series
from hostler.agent.hardware.pci import PciDevice
from hostler.agent.hardware.software import distro, mutation
from hostler.agent.hardware.tree import MOST_ENTRIES, entries, number, read
from hostler.agent.host.conda_places import CONDA_PLACES
from hostler.catalog.capabilities import REPORTED
from support.hardware import NAMES, plant, recorded

KEYS = set(REPORTED)
VALUES = {key: set(values) for key, values in REPORTED.items() if values is not None}


@pytest.mark.parametrize("name", NAMES)
def test_RS_08_each_recorded_machine_is_told_as_it_is(name: str, tmp_path: Path) -> None:
    found = detect(plant(name, tmp_path))
    expected = recorded(name)["expected"]
    assert {key: found[key] for key in expected} == expected
    assert set(found) == KEYS
    assert all(found[key] in values for key, values in VALUES.items())


def test_RS_08_the_recorded_machines_together_give_every_value(tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {}
    for name in NAMES:
        for key, value in detect(plant(name, tmp_path / name)).items():
            seen.setdefault(key, set()).add(value)
    for key in ("gpu.vendor", "compute.runtime", "fabric.type", "container.runtime"):
        assert seen[key] == VALUES[key], key


def test_this_machine_is_read_in_far_less_than_50_ms_of_its_own_time() -> None:
    before = time.process_time()
    for _ in range(10):
        found = detect(Path("/"))
    assert (time.process_time() - before) / 10 < 0.05
    assert set(found) == KEYS


def test_an_empty_root_has_nothing(tmp_path: Path) -> None:
    found = detect(tmp_path)
    assert (found["gpu.vendor"], found["gpu.count"], found["fabric.type"]) == ("other", "0", "none")
    assert (found["os.distro"], found["gpu.driver_series"], found["gpu.architecture"]) == ("unknown", "none", "none")


def board(vendor: int, device: int, kind: int = 0x0302) -> PciDevice:
    return PciDevice("0000:01:00.0", vendor, device, kind)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([board(0x10DE, 0x2330), board(0x8086, 0x4680, 0x0300)], ("nvidia", 1, "hopper")),
        ([board(0x8086, 0x4680, 0x0300)], ("intel", 1, "unknown")),
        ([board(0x1002, 0x74A1, 0x1200), board(0x10DE, 0x2330, 0x0300)], ("amd", 1, "cdna3")),
        ([board(0x10DE, 0x2330), board(0x10DE, 0x20B2)], ("nvidia", 2, "mixed")),
        ([board(0x10DE, 0x2901)], ("nvidia", 1, "blackwell")),
        ([board(0x10DE, 0xFFFF)], ("nvidia", 1, "unknown")),
        ([board(0x10DE, 0x22BA, 0x0403)], ("other", 0, "none")),  # a sound function beside a board
        ([board(0x1A03, 0x2000, 0x0300)], ("other", 0, "none")),  # a server's own console
        ([board(0x1AE0, 0x0063, 0x1200)], ("other", 0, "none")),  # a TPU
        ([], ("other", 0, "none")),
    ],
)
def test_what_counts_as_a_gpu(devices: list[PciDevice], expected: tuple[str, int, str], tmp_path: Path) -> None:
    found = gpus(tmp_path, devices)
    assert (found.vendor, found.count, found.architecture) == expected


@pytest.mark.parametrize(
    ("driver", "expected"),
    [("535.161.08", "535.161"), ("6.7.0", "6.7"), ("", "none"), ("unknown", "unknown"), ("6", "unknown"),
     ("1.2.3.4.5.6", "unknown"), ("9" * 40 + ".1", "unknown"), ("535.161\n; rm", "535.161")],
)  # fmt: skip
def test_a_driver_series_is_two_numbers_or_unknown(driver: str, expected: str) -> None:
    assert series(driver) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "debian-12"),
        ("ID='arch'\n", "arch"),
        ("ID=$(reboot)\nVERSION_ID=1\n", "unknown"),
        ("VERSION_ID=1\n", "unknown"),
        ("ID=" + "x" * 80, "unknown"),
        ("ID=debian\nVERSION_ID=\x1b[31m\n", "debian"),
        ("\ufffd\0\0", "unknown"),
    ],
)
def test_os_release_is_read_from_the_root_and_only_as_plain_words(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)
    assert distro(tmp_path) == expected


def test_X14_a_host_that_this_user_cannot_change_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert mutation(tmp_path) == "none"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert mutation(tmp_path) == "full"
    read_only = os.statvfs_result((4096, 4096, 1, 1, 1, 1, 1, 1, os.ST_RDONLY, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    assert mutation(tmp_path) == "none"


# -- hostile trees ----------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "loop", "absent", ".", "zero"):
        assert read(tmp_path / name) == ""
    assert read(tmp_path / "a\0b") == ""


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "huge").write_text("9" * 1_000_000)
    assert len(read(tmp_path / "huge")) == 4096
    assert number("9" * 4096) == -1
    many = tmp_path / "many"
    many.mkdir()
    for index in range(MOST_ENTRIES + 10):
        (many / str(index)).touch()
    assert len(entries(many)) == MOST_ENTRIES


@pytest.mark.parametrize("seed", range(12))
def test_garbled_trees_never_raise_and_never_make_a_value_of_their_own(seed: int, tmp_path: Path) -> None:
    """Every file of a recorded machine replaced by noise, links, directories or FIFOs."""
    chance = random.Random(seed)
    root = plant(NAMES[seed % len(NAMES)], tmp_path)
    for path in sorted(each for each in root.rglob("*") if each.is_file() and not each.is_symlink()):
        path.unlink()
        match chance.randrange(6):
            case 0:
                path.write_bytes(chance.randbytes(chance.randrange(5000)))
            case 1:
                path.write_text("0x" + "f" * chance.randrange(40))
            case 2:
                path.symlink_to(path)
            case 3:
                os.mkfifo(path)
            case 4:
                path.mkdir()
            case _:
                path.write_text("-1\n\x1b[2J${x}")
    found = detect(root)
    assert all(found[key] in values for key, values in VALUES.items())
    assert all(len(value) <= 140 and value.isascii() and value.isprintable() for value in found.values())


@pytest.mark.parametrize(
    ("place", "said"),
    [(place, "present") for place in CONDA_PLACES]
    + [("/usr/bin/mamba", "none"), ("/opt/miniconda3/bin/conda", "none")],
)
def test_OD_28_a_conda_is_reported_where_the_step_that_uses_it_looks(tmp_path: Path, place: str, said: str) -> None:
    made = tmp_path / place.lstrip("/")
    made.parent.mkdir(parents=True)
    made.touch(0o755)
    assert detect(tmp_path)["python.conda"] == said
