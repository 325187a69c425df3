"""LC-04, LC-05: how far an agent is from what was built and asked for, one tree for each state."""

from pathlib import Path

import msgspec
import pytest

from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.survey import Seen, Self, judge, look
from hostler.base.digest import sha256_hex
from hostler.pki.agent_report import MOST_EVIDENCE, DriftState, Evidence
from hostler.pki.manifest import INTERPRETER, MANIFEST, Manifest

COMMIT = "c" * 40
UNIT = "usr/lib/systemd/system/hostler-agent.service"
DIGESTS = ("files_digest", "units_digest", "config_digest")


class Node:
    """An installed package below `root`, and what its agent knows of itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = Places(root / "var/lib/hostler-agent", root / "usr/lib/hostler-agent")
        self.config = root / "etc/hostler/agent.toml"
        self.write("etc/hostler/agent.toml", b"state_dir = '/var/lib/hostler'\n")
        self.write(UNIT, b"[Service]\n")
        self.write("usr/lib/hostler-agent/bin/hostler-agent", b"#!launcher\n")
        self.write("usr/lib/hostler-agent/lib/code.py", b"pass\n")
        (self.places.packaged / INTERPRETER).symlink_to("../../../bin/python3")
        manifest = Manifest(
            version="1.2.0",
            commit=COMMIT,
            suite="bookworm",
            python="3.11",
            launcher="bin/hostler-agent",
            files={"bin/hostler-agent": sha256_hex(b"#!launcher\n"), "lib/code.py": sha256_hex(b"pass\n")},
            links={INTERPRETER: "../../../bin/python3"},
            units={"hostler-agent.service": sha256_hex(b"[Service]\n")},
        )
        self.write(f"usr/lib/hostler-agent/{MANIFEST}", msgspec.json.encode(manifest))

    def write(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def me(self, desired: str = "1.2.0", certificate: str = "", version: str = "1.2.0", commit: str = COMMIT) -> Self:
        return Self(
            version=version,
            commit=commit,
            desired_version=desired,
            certificate=certificate,
            config=self.config,
            config_digest=sha256_hex(b"state_dir = '/var/lib/hostler'\n"),
        )

    def look(self) -> Seen:
        return look(self.places, PACKAGED, self.me(), self.root)

    def state(self, me: Self | None = None, running: str = PACKAGED) -> tuple[DriftState, tuple[Evidence, ...]]:
        me = me or self.me()
        return judge(me, look(self.places, running, me, self.root))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_LC_04_what_is_as_it_was_built_and_asked_for_is_in_sync(node: Node) -> None:
    assert node.state() == (DriftState.IN_SYNC, ())
    seen = node.look()
    assert (seen.suite, seen.whole) == ("bookworm", True)
    assert all(getattr(seen, name) for name in DIGESTS)
    assert node.look() == seen


def test_LC_04_a_healthy_agent_that_is_behind(node: Node) -> None:
    state, (evidence,) = node.state(node.me(desired="1.3.0"))
    assert state == DriftState.VERSION_DRIFT
    assert (evidence.kind, evidence.expected, evidence.found) == ("version", "1.3.0", "1.2.0")


def test_LC_04_the_right_binary_with_a_stale_certificate(node: Node) -> None:
    state, (evidence,) = node.state(node.me(certificate="certificate_only_repair_needed"))
    assert (state, evidence.kind) == (DriftState.CERTIFICATE_ONLY, "certificate")


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("usr/lib/hostler-agent/lib/code.py", b"import evil\n", "file"),
        ("usr/lib/hostler-agent/lib/more.pth", b"import evil\n", "file"),
        (UNIT, b"[Service]\nUser=root\n", "unit"),
        ("etc/systemd/system/hostler-agent.service.d/10-mine.conf", b"[Service]\n", "unit"),
        ("run/systemd/system/hostler-agent.service", b"[Service]\n", "unit"),
        ("etc/hostler/agent.toml", b"state_dir = '/elsewhere'\n", "config"),
    ],
)
def test_LC_04_what_was_changed_is_config_drift_and_named(node: Node, path: str, data: bytes, kind: str) -> None:
    before = node.look()
    node.write(path, data)
    state, (evidence,) = node.state()
    assert (state, evidence.kind, evidence.found) == (DriftState.CONFIG_DRIFT, kind, sha256_hex(data))
    assert path.endswith(evidence.name.lstrip("/")) or evidence.name.endswith(path)
    after = node.look()
    moved = {"file": "files_digest", "unit": "units_digest", "config": "config_digest"}[kind]
    assert [name for name in DIGESTS if getattr(before, name) != getattr(after, name)] == [moved]


def test_LC_04_a_missing_file_a_missing_unit_and_a_link_that_leads_elsewhere(node: Node) -> None:
    (node.places.packaged / "lib/code.py").unlink()
    (node.root / UNIT).unlink()
    (node.places.packaged / INTERPRETER).unlink()
    (node.places.packaged / INTERPRETER).symlink_to("/nowhere/python3")
    state, evidence = node.state()
    assert state == DriftState.CONFIG_DRIFT
    assert sorted((each.kind, each.found) for each in evidence) == [("file", ""), ("file", ""), ("unit", "")]


def test_LC_04_a_package_without_its_manifest_is_broken(node: Node) -> None:
    (node.places.packaged / MANIFEST).unlink()
    state, (evidence,) = node.state()
    assert (state, evidence.name) == (DriftState.CONFIG_DRIFT, MANIFEST)


def test_LC_04_the_running_slot_is_compared_with_its_own_manifest(node: Node) -> None:
    slot = node.places.home("1.3.0-abc")
    for path in ("bin/hostler-agent", "lib/code.py", MANIFEST):
        (slot / path).parent.mkdir(parents=True, exist_ok=True)
        (slot / path).write_bytes((node.places.packaged / path).read_bytes())
    (slot / INTERPRETER).symlink_to("/usr/bin/python3")
    (slot / "units").mkdir()
    (slot / "units/hostler-agent.service").write_bytes(b"[Service]\n")
    assert node.state(running="1.3.0-abc") == (DriftState.IN_SYNC, ())
    node.write("usr/lib/hostler-agent/lib/code.py", b"of the package, which does not run\n")
    assert node.state(running="1.3.0-abc")[0] == DriftState.IN_SYNC
    (slot / "lib/code.py").write_bytes(b"import evil\n")
    assert node.state(running="1.3.0-abc")[0] == DriftState.CONFIG_DRIFT


@pytest.mark.parametrize(("version", "commit"), [("1.2.0", "unknown"), ("dev", COMMIT), ("1.2.0", "")])
def test_LC_05_an_unknown_build_is_never_in_sync(node: Node, version: str, commit: str) -> None:
    state, evidence = node.state(node.me(desired=version, version=version, commit=commit))
    assert (state, evidence[0].kind) == (DriftState.UNKNOWN, "build")


def test_LC_05_an_agent_that_runs_from_no_package_cannot_say_that_it_is_in_sync(node: Node) -> None:
    assert node.state(running="")[0] == DriftState.UNKNOWN


def test_the_most_urgent_comes_first_and_all_is_told_within_a_bound(node: Node) -> None:
    node.write(UNIT, b"changed\n")
    state, evidence = node.state(node.me(desired="9.9.9", certificate="certificate_only_repair_needed"))
    assert (state, [each.kind for each in evidence]) == (
        DriftState.CERTIFICATE_ONLY,
        ["certificate", "unit", "version"],
    )
    many = tuple(Evidence(kind="file", name=str(n), expected="", found="x") for n in range(500))
    assert len(judge(node.me(), Seen(files=many))[1]) == MOST_EVIDENCE
