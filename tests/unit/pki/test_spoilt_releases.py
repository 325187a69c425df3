"""LC-12: a release repository with a spoilt file says which one and what to do, and is not changed."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.pki import release_repo
from hostler.pki.keys import new_ed25519
from hostler.pki.release_repo import Publisher
from hostler.pki.releases import pack_metadata
from support.keys import NOW, Keys

FILES = ("1.root.json", "timestamp.json", "1.snapshot.json", "1.targets.json")
ROLES = dict(zip(FILES, ("root", "timestamp", "snapshot", "targets"), strict=True))


def publisher() -> Publisher:
    keys = Keys(update=new_ed25519())
    assert keys.update is not None
    return Publisher(keys.trust().keyset, [keys.update], NOW)


SPOILT = {
    "empty": b"",
    "zeros": b"\0" * 100,
    "list": b"[1]",
    "number": b'{"signed": 7}',
    "other": b'{"signed": {"_type": "mirrors"}}',
    "cut": None,
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("name", FILES)
def test_LC_12_a_spoilt_file_of_a_repository_is_named_with_what_to_do(
    name: str, spoilt: bytes | None, tmp_path: Path
) -> None:
    by, directory = publisher(), tmp_path / "releases"
    release_repo.init(directory, by)
    path = directory / "metadata" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if spoilt is None else spoilt)
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    for act in (lambda: release_repo.refresh(directory, by), lambda: pack_metadata(directory)):
        with pytest.raises(HostlerError) as caught:
            act()
        assert caught.value.code == "release_untrusted"
        assert caught.value.message == f"{path} holds no {ROLES[name]} metadata"
        assert "put the file back from a copy of the repository" in caught.value.hint
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    path.write_bytes(whole)
    release_repo.refresh(directory, by)


def test_LC_12_what_a_killed_command_left_is_gone_with_the_next_one(tmp_path: Path) -> None:
    by, directory = publisher(), tmp_path / "releases"
    release_repo.init(directory, by)
    left = [directory / "metadata/.timestamp.json.4711.new", directory / f"targets/.{'a' * 64}.x.deb.4711.new"]
    kept = [directory / "metadata/.keep", directory / "targets/.new"]
    for path in (*left, *kept):
        path.write_bytes(b"half")
    release_repo.refresh(directory, by)
    assert [path.exists() for path in (*left, *kept)] == [False, False, True, True]
