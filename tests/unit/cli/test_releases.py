"""PG-06, PK-08, LC-12: what somebody who publishes releases does, and what the tool refuses to sign."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import FetcherInterface, Updater

from hostler.pki import storage
from hostler.pki.ceremony import load_signer
from support.desk import NAME, Desk, error_of
from support.keys import NOW, YEAR_MS
from support.releases import DAY_MS, FILES, agent_package, digest, package


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # half of the time, and no power is cut here
    made = Desk(tmp_path, monkeypatch)
    made.init()
    yield made
    assert not [name for name in made.files() if ".new" in name], "something half-written was left"


def test_LC_12_published_and_taken(desk: Desk) -> None:
    assert "released 1.0.0 for bookworm to stable" in desk.add("1.0.0").output
    assert desk.add("1.1.0", "--channel", "candidate", "--replaces", "1.2.0", "--notes", "try it").exit_code == 0
    newest, first = desk.taken().releases
    assert (first.version, first.channels, first.replaces, first.notes) == ("1.0.0", ("stable",), (), "")
    assert (newest.version, newest.channels, newest.replaces, newest.notes) == (
        *("1.1.0", ("candidate",), ("1.2.0",), "try it"),
    )
    assert newest.sha256 == digest((desk.repo / "targets" / f"{newest.sha256}.{newest.file}").read_bytes())
    update, fresh = (load_signer(path).public.key_id for path in (desk.update, desk.fresh))
    signed = {role: json.loads(data)["signatures"] for role, data in desk.taken().trusted.items()}
    found = {role: [each["keyid"] for each in by] for role, by in signed.items()}
    assert found == {"root": [update], "targets": [update], "timestamp": [fresh], "snapshot": [fresh]}
    shown = desk.ok("releases", "list", str(desk.repo), "--trust", str(desk.trust))
    assert "1.1.0" in shown
    assert "candidate" in shown
    told = json.loads(desk.ok("releases", "verify", str(desk.repo), "--trust", str(desk.trust), "--output", "json"))
    assert [each["version"] for each in told["releases"]] == ["1.1.0", "1.0.0"]
    assert told["wrong_packages"] == {}


class Local(FetcherInterface):
    def __init__(self, place: Path) -> None:
        self.place = place

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = self.place / urlsplit(url).path.lstrip("/")
        if not path.exists():
            raise DownloadHTTPError("not there", 404)
        yield path.read_bytes()


def fetched(desk: Desk, bootstrap: bytes, version: str) -> bytes:
    """By a new client of python-tuf, which knows nothing but the first root."""
    place = desk.place / f"client-{len(list(desk.place.iterdir()))}"
    place.mkdir()
    client = Updater(
        *(str(place), "http://x/metadata/", str(place), "http://x/targets/"),
        fetcher=Local(desk.repo),
        bootstrap=bootstrap,
    )
    client.refresh()
    info = client.get_targetinfo(NAME.format(version))
    assert info is not None
    return Path(client.download_target(info)).read_bytes()


def test_the_client_of_python_tuf_follows_through_a_rotation(desk: Desk) -> None:
    """The referee: a repository of ours is a TUF repository, for whoever pins its first root."""
    first = (desk.repo / "metadata/1.root.json").read_bytes()
    assert desk.add("1.0.0").exit_code == 0
    assert fetched(desk, first, "1.0.0") == agent_package("1.0.0")
    rotate(desk)
    assert desk.add("1.1.0").exit_code == 0
    assert fetched(desk, first, "1.1.0") == agent_package("1.1.0")
    assert fetched(desk, first, "1.0.0") == agent_package("1.0.0")


def rotate(desk: Desk) -> dict[str, bytes]:
    """As docs/releases.md has it; gives what a node holds in the middle of it."""
    desk.ok("pki", "rotate", "update", str(desk.pki))
    known = desk.taken().trusted
    assert "hostler releases rotate" in desk.ok("pki", "rotate", "update", str(desk.pki), "--leave-behind")
    old = desk.pki / "update/update.old.key"
    done = desk.releases("rotate", "--retire", str(old))
    assert "root 2" in done.output, done.output
    known = desk.taken(known).trusted
    desk.ok("pki", "rotate", "update", str(desk.pki), "--leave-behind")
    assert not old.exists()
    return known


def test_PK_08_the_update_key_is_rotated_and_no_release_is_refused(desk: Desk) -> None:
    assert desk.add("1.0.0").exit_code == 0
    before = desk.update.read_bytes()
    known = rotate(desk)
    assert desk.update.read_bytes() != before
    assert desk.taken(known).versions["root"] == 2
    assert desk.add("1.1.0").exit_code == 0
    assert [each.version for each in desk.taken(known).releases] == ["1.1.0", "1.0.0"]
    storage.write_private(desk.place / "old.key", before)
    keys = (desk.place / "old.key", desk.fresh)
    said = desk.releases("add", str(desk.package("1.2.0")), "--channel", "stable", keys=keys)
    assert "lacks 1 signature" in error_of(said)


def test_PK_08_a_leaked_key_s_repository_is_not_signed_again(desk: Desk) -> None:
    """What it vouched for may be anybody's: the keyset drops it, and the packages are looked at anew."""
    assert desk.add("1.0.0").exit_code == 0
    desk.ok("pki", "rotate", "update", str(desk.pki), "--leaked")
    for name in ("refresh", "rotate"):
        assert "[release_untrusted]" in error_of(desk.releases(name))
    assert "[release_untrusted]" in error_of(desk.add("1.1.0"))
    known = {"timestamp": (desk.repo / "metadata/timestamp.json").read_bytes()}
    shutil.rmtree(desk.repo)
    desk.fresh.unlink()
    desk.init()
    assert desk.add("1.0.0").exit_code == 0
    assert desk.taken(known).releases[0].version == "1.0.0"


def test_what_somebody_else_put_into_the_repository_is_not_signed(desk: Desk) -> None:
    """It lies where others can write. Nothing of theirs comes out signed."""
    assert desk.add("1.0.0").exit_code == 0
    good = desk.files()
    for name in ("1.root", "2.targets", "2.snapshot", "timestamp"):
        path = desk.repo / f"metadata/{name}.json"
        document = json.loads(path.read_bytes())
        document["signed"]["expires"] = "2040-01-01T00:00:00Z"
        path.write_text(json.dumps(document))
        for words in (("refresh",), ("rotate",), ("withdraw", "1.0.0", "--suite", "bookworm")):
            assert "[release_untrusted]" in error_of(desk.releases(*words))
        assert "[release_untrusted]" in error_of(desk.add("1.1.0"))
        path.write_bytes(good[f"metadata/{name}.json"])
    assert desk.files() == good


def test_verify_finds_a_package_that_was_changed(desk: Desk) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        assert desk.add(version).exit_code == 0
    one, other, _ = sorted((desk.repo / "targets").iterdir(), key=lambda path: path.name.split(".", 1)[1])
    one.write_bytes(package())
    other.unlink()
    done = desk.run("releases", "verify", str(desk.repo), "--trust", str(desk.trust))
    assert done.exit_code == 1
    assert "other bytes than were signed" in done.output
    assert "No such file" in done.output


def test_a_published_version_does_not_change_and_may_move_to_another_channel(desk: Desk) -> None:
    assert desk.add("1.0.0", "--channel", "candidate").exit_code == 0
    other = FILES | {"lib/x.py": b"x"}
    assert "[definition_immutable]" in error_of(desk.add("1.0.0", files=other))
    assert desk.add("1.0.0", "--channel", "stable", "--channel", "candidate", "--notes", "good").exit_code == 0
    (only,) = desk.taken().releases
    assert (only.channels, only.notes) == (("stable", "candidate"), "good")


def test_withdrawn_is_offered_no_more(desk: Desk) -> None:
    for version in ("1.0.0", "1.1.0"):
        assert desk.add(version).exit_code == 0
    known = desk.taken().trusted
    assert desk.releases("withdraw", "1.1.0", "--suite", "bookworm").exit_code == 0
    assert [each.version for each in desk.taken(known).releases] == ["1.0.0"]
    assert not [path for path in (desk.repo / "targets").iterdir() if "1.1.0" in path.name]
    assert "[release_unknown]" in error_of(desk.releases("withdraw", "1.1.0", "--suite", "bookworm"))


@pytest.mark.parametrize(
    "words",
    [("--replaces", "0.9.0"), ("--replaces", "1.0.0"), ("--replaces", "x"), ("--notes", "\x1b[2J")],
    ids=range(4),
)
def test_facts_that_no_node_would_take_are_refused_at_the_desk(desk: Desk, words: tuple[str, ...]) -> None:
    before = desk.files()
    assert "[release_untrusted]" in error_of(desk.add("1.0.0", *words))
    assert desk.files() == before


def test_a_package_that_is_none_is_refused_at_the_desk(desk: Desk) -> None:
    before = desk.files()
    for name, data in ((NAME.format("1.0.0"), b"x"), ("Odd name.deb", package()), ("hostler.txt", package())):
        path = desk.place / name
        path.write_bytes(data)
        assert desk.releases("add", str(path), "--channel", "stable").exit_code == 1
    assert desk.files() == before


def test_the_fresh_key_keeps_it_fresh_and_can_do_no_more(desk: Desk) -> None:
    assert desk.add("1.0.0").exit_code == 0
    desk.at(NOW + 31 * DAY_MS)
    stale = desk.run("releases", "verify", str(desk.repo), "--trust", str(desk.trust))
    assert "[release_stale]" in error_of(stale)
    assert "expired" in desk.ok("releases", "list", str(desk.repo), "--trust", str(desk.trust))
    assert "good until" in desk.releases("refresh", keys=(desk.fresh,)).output
    assert desk.taken().versions == {"root": 1, "timestamp": 3, "snapshot": 3, "targets": 2}
    said = desk.releases("add", str(desk.package("1.1.0")), "--channel", "stable", keys=(desk.fresh,))
    assert "the targets metadata lacks 1 signature" in error_of(said)


def test_root_and_targets_are_renewed_before_they_expire(desk: Desk) -> None:
    assert desk.add("1.0.0").exit_code == 0
    desk.at(NOW + 320 * DAY_MS)
    assert "expire in 45 days" in desk.releases("refresh", keys=(desk.fresh,)).output
    assert desk.taken().versions["root"] == 1
    desk.at(NOW + 364 * DAY_MS)
    assert desk.releases("refresh").exit_code == 0
    assert desk.taken().versions == {"root": 2, "timestamp": 4, "snapshot": 4, "targets": 3}
    assert desk.taken().expires_ms > NOW + 364 * DAY_MS
    assert [each.version for each in desk.taken().releases] == ["1.0.0"]


def test_a_repository_that_has_lapsed_is_taken_up_again(desk: Desk) -> None:
    assert desk.add("1.0.0").exit_code == 0
    known = desk.taken().trusted
    desk.ok("pki", "refresh", str(desk.pki))
    desk.at(NOW + YEAR_MS - DAY_MS)
    desk.ok("pki", "refresh", str(desk.pki))
    desk.at(NOW + YEAR_MS + 40 * DAY_MS)
    assert desk.releases("refresh").exit_code == 0
    assert desk.taken(known).versions["root"] == 2


def test_only_update_keys_of_the_keyset_make_a_repository(desk: Desk) -> None:
    shutil.rmtree(desk.repo)
    other = desk.pki / "catalog/catalog.key"
    words = ("releases", "init", str(desk.repo), "--trust", str(desk.trust), "--key")
    assert "lacks 1 signature" in error_of(desk.run(*words, str(other)))
    assert not desk.repo.exists()
    desk.ok(*words, str(desk.update))
    assert "[already_initialised]" in error_of(desk.run(*words, str(desk.update)))
    assert desk.taken().releases == ()
    assert desk.releases("refresh", keys=(desk.update,)).exit_code == 0, "the update key keeps it fresh as well"


def test_a_directory_that_is_no_repository(desk: Desk) -> None:
    shutil.rmtree(desk.repo)
    for words in (("refresh",), ("rotate",), ("withdraw", "1.0.0", "--suite", "bookworm")):
        assert "holds no release repository" in error_of(desk.releases(*words))
    done = desk.run("releases", "list", str(desk.repo), "--trust", str(desk.trust))
    assert "holds no release repository" in error_of(done)
