"""LC-04, LC-13: what lies on a node is reported under the word for what may be done with it; older units are seen."""

from pathlib import Path

import msgspec
import pytest
from unit.agent.upgrade.test_survey import UNIT, Node

from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.places import PACKAGED
from hostler.agent.upgrade.records import Book
from hostler.base.digest import sha256_hex
from hostler.pki.agent_report import DriftState
from hostler.pki.manifest import MANIFEST, Manifest, parse_manifest
from support.slots import make_slot, places_in, release


def test_LC_13_only_what_may_be_gone_to_is_staged(tmp_path: Path) -> None:
    places = places_in(tmp_path)
    for version in ("1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"):
        make_slot(places, version, version)
        if version != "1.6.0":
            replaces = ("1.4.0",) if version == "1.2.0" else ()
            slots.note_release(places, version, release(version, replaces=replaces))
    records.write(places.book, Book(good=("1.1.0", "1.4.0"), bad={"1.7.0": "it hung"}, previous=PACKAGED))
    assert {one.version: one.state for one in slots.listing(places, "1.4.0")} == {
        "1.0.0": "previous",
        "1.1.0": "kept",
        "1.2.0": "staged",  # signed as a replacement of what runs
        "1.3.0": "superseded",
        "1.4.0": "running",
        "1.5.0": "staged",
        "1.6.0": "superseded",  # nothing signed of it is known
        "1.7.0": "bad",
    }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """It runs a slot of version 1.3.0, whose unit is newer than that of the package, 1.2.0."""
    made = Node(tmp_path)
    home = made.places.home("1.3.0-abc")
    made.write("var/lib/hostler-agent/slots/1.3.0-abc/bin/hostler-agent", b"#!launcher\n")
    made.write("var/lib/hostler-agent/slots/1.3.0-abc/lib/code.py", b"pass\n")
    made.write("var/lib/hostler-agent/slots/1.3.0-abc/units/hostler-agent.service", b"[Service]\nNew=1\n")
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    manifest: Manifest = parse_manifest((made.places.packaged / MANIFEST).read_bytes())
    newer = {"hostler-agent.service": sha256_hex(b"[Service]\nNew=1\n")}
    (home / MANIFEST).write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, version="1.3.0", units=newer)))
    made.places.current.symlink_to("slots/1.3.0-abc")
    return made


def test_LC_04_units_of_an_older_package_are_drift_and_named(node: Node) -> None:
    """Slots bring no units; the version runs under those that there are."""
    state, (evidence,) = node.state(node.me(version="1.3.0", desired="1.3.0"), running="1.3.0-abc")
    assert (state, evidence.kind, evidence.name) == (DriftState.CONFIG_DRIFT, "unit", f"/{UNIT}")
    assert (evidence.expected, evidence.found) == (sha256_hex(b"[Service]\nNew=1\n"), "of package 1.2.0")


def test_LC_04_a_unit_that_was_changed_by_hand_is_told_from_an_older_one(node: Node) -> None:
    node.write(UNIT, b"[Service]\nUser=root\n")
    _, (evidence,) = node.state(node.me(version="1.3.0", desired="1.3.0"), running="1.3.0-abc")
    assert evidence.found == sha256_hex(b"[Service]\nUser=root\n")


def test_LC_04_with_the_package_of_the_version_its_units_are_there(node: Node) -> None:
    node.write(UNIT, b"[Service]\nNew=1\n")
    assert node.state(node.me(version="1.3.0", desired="1.3.0"), running="1.3.0-abc") == (DriftState.IN_SYNC, ())
