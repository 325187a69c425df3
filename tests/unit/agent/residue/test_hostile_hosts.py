"""R2: a tenant who knows that the host will be looked at: too much, too deep, odd names, pipes, links out."""

import os
from pathlib import Path

import pytest

from hostler.agent.residue.inventory import look
from hostler.agent.residue.model import Finding, Inventory, Item, compare, decode, encode, plain, summary
from hostler.agent.residue.reader import Bounds, Exhausted, Reader
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from support.tenancy import machine_root


def bounds(entries: int = 100_000, seconds: float = 30) -> Bounds:
    return Bounds(entries, Deadline.after(seconds, SystemClock()))


def gaps(root: Path, given: Bounds) -> dict[str, str]:
    _, coverage = look(root, given, ())
    return {family: said for family, said in coverage.items() if said != "complete"}


def test_R2_more_entries_than_may_be_looked_at_leave_a_gap_and_no_clean_bill(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    for number in range(500):
        (root / "tmp" / f"f{number}").touch()
    assert gaps(root, bounds(entries=400)) != {}
    assert gaps(root, bounds()) == {}


def test_R2_no_time_left_is_a_gap(tmp_path: Path) -> None:
    found = gaps(machine_root(tmp_path), bounds(seconds=0))
    assert "the time for looking is up" in found["places"]


def test_R2_a_tree_without_end_is_a_gap(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    (root / "home" / "/".join("d" * 80)).mkdir(parents=True)
    assert "too deep" in gaps(root, bounds())["places"]


def test_R2_nothing_hangs_on_a_pipe_or_follows_a_link_out(tmp_path: Path) -> None:
    root, outside = machine_root(tmp_path / "root"), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    os.mkfifo(root / "etc/pipe")
    (root / "home/away").symlink_to(outside)
    items, coverage = look(root, bounds(), ())
    assert set(coverage.values()) == {"complete"}
    names = {item.name for item in items}
    assert {"/etc/pipe", "/home/away"} <= names
    assert not any("secret" in name for name in names)


def test_R2_a_file_that_is_no_table_cannot_stop_the_other_families(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    (root / "proc/1/net").mkdir()
    (root / "proc/1/net/tcp").write_text("h\nx x x x x x x x x x\n   0: zz:115C x 0A 0 0 0 1 1 1\n")
    found = gaps(root, bounds())
    assert set(found) == {"sockets and routes"}


def test_R2_names_are_shown_escaped_and_stay_different(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    for name in (b"evil\n[32mclean\x1b[0m", b"\xff\xfe", "right\u202eleft".encode()):
        (root / "tmp" / os.fsdecode(name)).touch()
    items, _ = look(root, bounds(), ())
    names = {item.name for item in items if item.name.startswith("/tmp/")}
    assert names == {"/tmp/evil\\x0a[32mclean\\x1b[0m", "/tmp/\\xff\\xfe", "/tmp/right\\u202eleft"}
    assert plain("a" * 9000) != plain("a" * 4000 + "b" + "a" * 4999)
    assert len(plain("a" * 9000)) < 600


def test_a_file_longer_than_its_bound_is_exhaustion(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 100)
    with pytest.raises(Exhausted):
        Reader(tmp_path, bounds()).read("/long", 99)


def inventory(*items: Item, **more: str) -> Inventory:
    return Inventory(taken_ms=1, boot_id="b", items=items, coverage=more)


def test_every_difference_is_a_finding_and_one_of_each_kind_comes_first() -> None:
    before = inventory(Item("user", "a", "1"), Item("user", "gone"), Item("mount", "/", "x"))
    after = inventory(Item("user", "a", "2"), Item("mount", "/", "x"), *(Item("file", f"f{n}") for n in range(300)))
    findings = compare(before, after)
    assert len(findings) == 302
    assert {(f.kind, f.change, f.name) for f in findings[:2]} == {("file", "new", "f0"), ("user", "changed", "a")}
    text = summary(findings)
    assert text.startswith("302 differences from the baseline, of 2 kinds: ")
    assert "user a (changed)" in text
    assert len(text) <= 6000
    assert "more" in summary([Finding(kind="k", change="new", name="n" * 400)] * 90)


def test_two_things_of_one_name_do_not_hide_each_other() -> None:
    before = inventory(Item("process", "x of uid 0", "/a"))
    after = inventory(Item("process", "x of uid 0", "/a"), Item("process", "x of uid 0", "/b"))
    assert [finding.change for finding in compare(before, after)] == ["changed"]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[" * 9000, b'{"version":2,"taken_ms":1,"boot_id":"","items":[],"coverage":{}}']
)
def test_a_baseline_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        decode(data)
    assert caught.value.code == "baseline_unusable"
    made = inventory(Item("a", "b"))
    assert decode(encode(made)) == made
