"""Code bundles over HTTP: sent once, checked, and nobody else's (JB-08, AZ-10, S2)."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError
from hostler.control.bundles import files as bundle_files
from hostler.control.bundles.files import BundleFiles, Key
from hostler.control.bundles.settings import BundleSettings
from hostler.control.loops import bundles as loop
from support.http_api import Api, api_in
from support.keys import NOW

CODE = b"a plain tar, as far as the control plane is concerned" * 1000
SHA = sha256_hex(CODE)
BASE = "/api/v1/projects/train/bundles"
DAY_MS = 86_400_000


def kept(folder: Path) -> list[Path]:
    return [path for path in (folder / "bundles").rglob("*") if path.is_file()]


def limited(api: Api, **changes: Any) -> None:
    files = api.parts.code_bundles
    files.settings = msgspec.structs.replace(files.settings, **changes)


async def test_JB_08_a_bundle_is_sent_found_listed_and_removed(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        assert (await member.head(f"{BASE}/{SHA}")).status_code == 404
        made = await member.put(f"{BASE}/{SHA}", content=CODE)
        assert (made.status_code, made.json()) == (201, {"sha256": SHA, "size_bytes": len(CODE), "created": True})
        again = await member.put(f"{BASE}/{SHA}", content=CODE)
        assert (again.status_code, again.json()["created"]) == (200, False)
        assert (await member.head(f"{BASE}/{SHA}")).status_code == 200
        shown = (await member.get(f"{BASE}/{SHA}")).json()
        assert (shown["size_bytes"], shown["created_by"]) == (len(CODE), "project-member-acme")
        assert (await member.get(BASE)).json()["items"] == [shown]
        (file,) = kept(tmp_path)
        assert file.read_bytes() == CODE
        assert file.stat().st_mode & 0o777 == 0o600
        assert (await member.delete(f"{BASE}/{SHA}")).status_code == 200
        assert kept(tmp_path) == []
        assert (await member.delete(f"{BASE}/{SHA}")).status_code == 404
        assert (await member.put(f"{BASE}/{SHA}", content=CODE)).status_code == 201


async def test_JB_08_one_that_is_deleted_while_it_is_sent_again_leaves_no_row_without_bytes(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        await member.put(f"{BASE}/{SHA}", content=CODE)

        async def slow() -> AsyncIterator[bytes]:
            yield CODE[:100]
            assert (await member.delete(f"{BASE}/{SHA}")).status_code == 200
            yield CODE[100:]

        answer = await member.put(f"{BASE}/{SHA}", content=slow())
        assert (answer.status_code, answer.json()["error_code"]) == (422, "bundle_missing")
        assert (await member.get(BASE)).json()["items"] == []
        assert (await member.put(f"{BASE}/{SHA}", content=CODE)).status_code == 201


async def test_JB_08_bytes_of_another_digest_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        refused = await member.put(f"{BASE}/{SHA}", content=CODE[:-1] + b"!")
        assert (refused.status_code, refused.json()["error_code"]) == (422, "bundle_digest")
        for name in ("x", SHA.upper(), SHA[:-1], f"{SHA}0", "..%2f" + SHA):
            answer = await member.put(f"{BASE}/{name}", content=CODE)
            assert answer.status_code in (404, 422), name
        assert kept(tmp_path) == []
        (event,) = [e for e in await api.fleet.events() if e.error_code == "bundle_digest"]
        assert event.type == "bundle.store_refused"


async def test_AZ_10_S2_a_digest_opens_nothing_in_another_project(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        await api.fleet.enroll("gpu-2", org="rival", project="lab")
        owner, rival = await api.client("project_admin"), await api.client("project_admin", "rival", "lab")
        await owner.put(f"{BASE}/{SHA}", content=CODE)
        lab = BASE.replace("train", "lab")
        assert (await rival.get(lab)).json()["items"] == []
        for base in (lab, BASE):
            assert (await rival.get(f"{base}/{SHA}")).status_code == 404
            assert (await rival.delete(f"{base}/{SHA}")).status_code == 404
        mine = await rival.put(f"{lab}/{SHA}", content=CODE)  # who has the bytes may send them, and learns nothing
        assert (mine.status_code, mine.json()["created"]) == (201, True)
        assert len(kept(tmp_path)) == 2


async def test_AZ_04_a_member_removes_what_it_sent_itself(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        admin, member = await api.client("project_admin"), await api.client("project_member")
        await admin.put(f"{BASE}/{SHA}", content=CODE)
        assert (await member.delete(f"{BASE}/{SHA}")).status_code == 403
        assert (await admin.delete(f"{BASE}/{SHA}")).status_code == 200


async def test_limits_of_one_bundle_of_a_project_and_of_the_disk(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        limited(api, max_bytes=len(CODE) - 1)

        async def unsaid() -> AsyncIterator[bytes]:
            yield CODE

        for content in (CODE, unsaid()):
            refused = await member.put(f"{BASE}/{SHA}", content=content)
            assert (refused.status_code, refused.json()["error_code"]) == (429, "too_large")
        limited(api, max_bytes=len(CODE), project_bytes=len(CODE) - 1)
        refused = await member.put(f"{BASE}/{SHA}", content=CODE)
        assert (refused.status_code, refused.json()["error_code"]) == (429, "bundle_quota")
        limited(api, project_bytes=len(CODE), reserve_bytes=1 << 50)
        refused = await member.put(f"{BASE}/{SHA}", content=CODE)
        assert (refused.status_code, refused.json()["error_code"]) == (429, "disk_full")
        assert kept(tmp_path) == []


async def test_a_bundle_whose_file_is_gone_is_not_there_and_may_be_sent_again(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        await member.put(f"{BASE}/{SHA}", content=CODE)
        (file,) = kept(tmp_path)
        file.unlink()
        assert (await member.get(f"{BASE}/{SHA}")).status_code == 404
        assert (await member.put(f"{BASE}/{SHA}", content=CODE)).status_code == 201
        assert (await member.get(f"{BASE}/{SHA}")).status_code == 200


async def test_what_nobody_uses_expires_with_its_file_and_stray_files_are_swept(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        member = await api.client("project_member")
        await member.put(f"{BASE}/{SHA}", content=CODE)
        (file,) = kept(tmp_path)
        stray, cut = file.with_name("f" * 64), file.with_name(f".{SHA}.0123")
        for path in (stray, cut, file):
            path.write_bytes(CODE)
            os.utime(path, (1, 1))
        fresh = file.with_name(f".{SHA}.4567")
        fresh.write_bytes(b"an upload that goes on")
        os.utime(fresh, (NOW / 1000 + 40 * 86_400,) * 2)
        engine, files = api.parts.engine, api.parts.code_bundles
        assert await loop.tidy(engine, files) == 0
        assert sorted(kept(tmp_path)) == sorted((file, fresh))
        api.fleet.clock.move(31 * DAY_MS)
        assert await loop.tidy(engine, files) == 1
        assert kept(tmp_path) == [fresh]


async def test_a_project_sends_so_many_at_once_and_silence_is_given_up(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(bundle_files, "IDLE_S", 0.05)
    monkeypatch.setattr(bundle_files, "MOST_AT_ONCE", 1)
    files, key = BundleFiles(tmp_path, BundleSettings(reserve_bytes=0)), Key("acme", "train", SHA)
    seen: list[str] = []

    async def silent() -> AsyncIterator[bytes]:
        yield CODE
        try:
            async with files.received(key, silent()):
                raise AssertionError
        except Exception as err:
            seen.append(getattr(err, "code", ""))
        import asyncio

        await asyncio.sleep(5)

    try:
        async with files.received(key, silent()):
            raise AssertionError
    except Exception as err:
        seen.append(getattr(err, "code", ""))
    assert seen == ["rate_limited", "invalid_request"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_name_that_is_none_never_becomes_a_path(tmp_path: Path) -> None:
    files = BundleFiles(tmp_path, BundleSettings())
    good = Key("acme", "train", SHA)
    assert files.path(good) == tmp_path / "acme/train" / SHA
    for key in (
        good._replace(sha256="../../etc/passwd"),
        good._replace(sha256=f"{SHA}\n"),
        good._replace(org_id=".."),
        good._replace(project_id="a/b"),
        good._replace(project_id=""),
    ):
        with pytest.raises(HostlerError) as failed:
            files.path(key)
        assert failed.value.code == "invalid_request"
