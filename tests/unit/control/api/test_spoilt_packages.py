"""API-18, LC-12: what a crash or a hand has left in the packages directory neither stays nor blocks for ever."""

import dataclasses
import os
from pathlib import Path

import pytest

from hostler.control.api.app import make_app
from hostler.control.bundles.files import STALE_S
from hostler.control.delivery.packages import Packages
from hostler.control.loops.packages import tidy
from support.http_api import UPDATES, Api, api_in
from support.published import RELEASES, Repository

METADATA = "/packages/v1/metadata.json"
DIGEST, NONCE = "a" * 64, "0123456789abcdef"
OURS = (f".{DIGEST}.{NONCE}", ".metadata.json.4711.new")
OTHERS = (DIGEST, "metadata.json", ".keep", f".{DIGEST}", f"{DIGEST}.{NONCE}", f".{DIGEST}.{NONCE}.txt")


def restarted(api: Api, folder: Path) -> None:
    """The control plane begins again: nothing is known but what lies on disk."""
    api.parts = dataclasses.replace(api.parts, packages=Packages(folder / "packages", UPDATES))
    api.app = make_app(api.parts, "test")


async def test_API_18_half_an_upload_that_a_crash_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        packages = Packages(tmp_path / "packages", UPDATES)
        assert await tidy(packages, api.fleet.clock) == 0, "there is no directory yet"
        (tmp_path / "packages").mkdir()
        now_s, young = api.fleet.clock.now_ms() / 1000, f".{'b' * 64}.{NONCE}"
        for name in (*OURS, *OTHERS, young):
            path = tmp_path / "packages" / name
            path.write_bytes(b"half")
            at = now_s - (1 if name == young else STALE_S + 1)
            os.utime(path, (at, at))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_bytes(b"precious")
        link = tmp_path / "packages" / f".{'c' * 64}.{NONCE}"
        link.symlink_to(elsewhere)
        os.utime(link, (0, 0), follow_symlinks=False)
        assert await tidy(packages, api.fleet.clock) == len(OURS)
        assert {path.name for path in (tmp_path / "packages").iterdir()} == {*OTHERS, young, link.name}
        assert elsewhere.read_bytes() == b"precious"


SPOILT = {
    "empty": b"",
    "zeros": b"\0" * 700,
    "cut": b'{"format":1,"root":',
    "other": b"{}",
    "huge": b"x" * 600_000,
    "folder": None,
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
async def test_LC_12_spoilt_metadata_is_named_with_what_to_do_and_that_mends_it(
    spoilt: bytes | None, tmp_path: Path
) -> None:
    async with api_in(tmp_path) as api:
        assert api.fleet.keys.update is not None
        repository = Repository(api.fleet.keys.update)
        await repository.publish(await api.client("platform_admin"))
        kept = tmp_path / "packages" / "metadata.json"
        kept.unlink()
        if spoilt is None:
            kept.mkdir()
        else:
            kept.write_bytes(spoilt)
        restarted(api, tmp_path)
        admin, nobody = api.bearer("platform-admin-all"), api.bearer("")
        for answer in (await admin.put(RELEASES, content=repository.document()), await nobody.get(METADATA)):
            assert (answer.status_code, answer.json()["error_code"]) == (503, "store_unavailable"), answer.text
            assert answer.json()["detail"].startswith("metadata.json in the packages directory cannot be read")
            assert "remove it and run 'hostler releases publish' again" in answer.json()["hint"]
            assert str(tmp_path) not in answer.text
        kept.rmdir() if spoilt is None else kept.unlink()
        assert (await repository.publish(admin))["published"]
        assert (await nobody.get(METADATA)).status_code == 200
