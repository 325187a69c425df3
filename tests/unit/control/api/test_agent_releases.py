"""API-18, LC-12: releases are kept once the update keys have vouched for them, and packages served to who was told."""

import asyncio
import contextlib
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.control.api import packages as served
from hostler.control.api.app import make_app
from hostler.control.kernel.package_urls import mint
from hostler.pki.keys import new_ed25519
from support.control import FrozenClock
from support.http_api import PACKAGES_URL, Api, api_in
from support.keys import NOW
from support.published import RELEASES, Repository, open_run, package_of, signed

METADATA = "/packages/v1/metadata.json"


def repository(api: Api) -> Repository:
    assert api.fleet.keys.update is not None
    return Repository(api.fleet.keys.update)


async def address(api: Api, version: str) -> str:
    """Of the open run of a node, by hand."""
    run_id = await open_run(api, version)
    url, _ = mint(api.fleet.engine.agents, signed(version).file, run_id, api.fleet.clock.now)
    return url


async def test_API_18_a_release_is_published_in_three_steps_and_served_byte_for_byte(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, nobody, repo = await api.client("platform_admin"), api.bearer(""), repository(api)
        assert (await nobody.get(METADATA)).status_code == 404
        document = repo.document()
        judged = (await admin.put(RELEASES, content=document)).json()
        assert (judged["published"], judged["new"], len(judged["missing"])) == (False, [], 2)
        assert (await nobody.get(METADATA)).status_code == 404, "not before every package is here"
        assert (await repo.publish(admin))["new"] == ["1.1.0", "1.0.0"]
        answered = await nobody.get(METADATA)
        assert set(answered.json()) == {"format", "root", "timestamp", "snapshot", "targets"}
        again = await nobody.get(METADATA, headers={"if-none-match": answered.headers["etag"]})
        assert again.status_code == 304
        answer = await nobody.get(await address(api, "1.1.0"))
        data = package_of("1.1.0")
        assert (answer.status_code, answer.content) == (200, data)
        assert answer.headers["etag"] == f'"{hashlib.sha256(data).hexdigest()}"'
        assert answer.headers["repr-digest"].startswith("sha-256=:")
        listed = (await admin.get(RELEASES, params={"page_size": "1"})).json()
        more = (await admin.get(RELEASES, params={"page_size": "1", "cursor": listed["next_cursor"]})).json()
        assert {each["version"] for each in listed["items"] + more["items"]} == {"1.0.0", "1.1.0"}


async def test_API_18_a_download_that_was_cut_goes_on_where_it_ended(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await repository(api).publish(await api.client("platform_admin"))
        nobody, url, data = api.bearer(""), await address(api, "1.1.0"), package_of("1.1.0")
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        for asked, first, last in (("bytes=5-", 5, len(data)), ("bytes=0-9", 0, 10), ("bytes=-7", len(data) - 7, None)):
            answer = await nobody.get(url, headers={"range": asked, "if-range": etag})
            assert (answer.status_code, answer.content) == (206, data[first:last])
            assert answer.headers["content-range"].endswith(f"/{len(data)}")
            assert answer.headers["etag"] == etag
        changed = await nobody.get(url, headers={"range": "bytes=5-", "if-range": '"another"'})
        assert (changed.status_code, changed.content) == (200, data), "another file begins anew"
        behind = await nobody.get(url, headers={"range": f"bytes={len(data)}-"})
        assert (behind.status_code, behind.json()["error_code"]) == (416, "range_not_satisfiable")


async def test_LC_12_an_address_ends_and_is_good_for_one_file(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await repository(api).publish(await api.client("platform_admin"))
        nobody, url = api.bearer(""), await address(api, "1.1.0")
        token, _, file = url.rpartition("/packages/v1/")[2].partition("/")
        other = signed("1.0.0").file
        flipped = ("B" if token[9] == "A" else "A").join((token[:9], token[10:]))
        for wrong in (f"{token}/{other}", f"{flipped}/{file}", f"x/{file}", f"{token[:-1]}/{file}", f"é/{file}"):
            answer = await nobody.get(f"/packages/v1/{wrong}")
            assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found"), wrong
        api.fleet.clock.move(api.fleet.engine.agents.url_ttl_ms + 1000)
        late = await nobody.get(url)
        assert (late.status_code, late.json()["error_code"]) == (410, "package_url_expired")


async def test_LC_12_nothing_is_kept_that_the_update_keys_did_not_sign(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        stranger = Repository(new_ed25519())
        answer = await admin.put(RELEASES, content=stranger.document())
        assert (answer.status_code, answer.json()["error_code"]) == (409, "release_untrusted")
        data = package_of("1.1.0")
        sent = await admin.put(f"{RELEASES}/packages/{hashlib.sha256(data).hexdigest()}", content=data)
        assert (sent.status_code, sent.json()["error_code"]) == (404, "release_unknown")
        for rubbish in (b"", b"{}", b"x" * 600_000):
            assert (await admin.put(RELEASES, content=rubbish)).is_client_error
        assert not (tmp_path / "packages").exists()


async def test_LC_12_a_package_that_is_not_the_signed_one_is_not_kept(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, repo = await api.client("platform_admin"), repository(api)
        document = repo.document()
        (first, *_) = (await admin.put(RELEASES, content=document)).json()["missing"]
        path, size = f"{RELEASES}/packages/{first['sha256']}", first["size_bytes"]
        for wrong, code in (
            (b"x" * size, "digest_mismatch"),
            (b"x", "digest_mismatch"),
            (b"x" * (size + 1), "too_large"),
        ):
            answer = await admin.put(path, content=wrong)
            assert answer.json()["error_code"] == code
        assert list((tmp_path / "packages").iterdir()) == []
        assert (await admin.put(RELEASES, content=document)).json()["published"] is False


async def test_LC_12_older_and_expired_metadata_is_refused(tmp_path: Path) -> None:
    clock = FrozenClock()
    async with api_in(tmp_path, clock) as api:
        admin, repo = await api.client("platform_admin"), repository(api)
        old = repo.document()
        await repo.publish(admin)
        answer = await admin.put(RELEASES, content=old)
        assert (answer.status_code, answer.json()["error_code"]) == (409, "release_rollback")
        late = repo.document()
        clock.move(31 * 86_400_000)
        answer = await admin.put(RELEASES, content=late)
        assert (answer.status_code, answer.json()["error_code"]) == (409, "release_stale")


async def test_a_withdrawn_release_is_not_served_any_more(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, repo = await api.client("platform_admin"), repository(api)
        await repo.publish(admin)
        url = await address(api, "1.1.0")
        repo.house.releases = tuple(each for each in repo.house.releases if each.version == "1.0.0")
        await repo.publish(admin)
        assert (await api.bearer("").get(url)).status_code == 404
        assert (await api.bearer("").get(await address(api, "1.0.0"))).status_code == 200


async def test_what_is_here_already_is_not_sent_again(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, repo = await api.client("platform_admin"), repository(api)
        await repo.publish(admin)
        one = signed("1.1.0")
        answer = await admin.put(f"{RELEASES}/packages/{one.sha256}", content=package_of("1.1.0"))
        assert (answer.status_code, answer.json()["created"]) == (200, False)
        repo.house.releases = tuple(msgspec.structs.replace(each, notes="words") for each in repo.house.releases)
        assert (await admin.put(RELEASES, content=repo.document())).json()["published"] is True


async def test_only_so_many_packages_are_sent_at_one_time(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await repository(api).publish(await api.client("platform_admin"))
        assert api.parts.packages is not None
        held = [api.parts.packages.sending() for _ in range(api.parts.packages.settings.downloads)]
        for each in held:
            each.__enter__()
        answer = await api.bearer("").get(await address(api, "1.1.0"))
        assert (answer.status_code, answer.json()["error_code"]) == (429, "rate_limited")
        held[0].__exit__(None, None, None)
        assert (await api.bearer("").get(await address(api, "1.1.0"))).status_code == 200


async def test_API_18_who_reads_nothing_does_not_keep_his_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many addresses as there are places, and nobody would get a version any more."""
    monkeypatch.setattr(served, "GRACE_S", 0.1)
    monkeypatch.setattr(served, "LEAST_RATE", 1 << 40)
    async with api_in(tmp_path) as api:
        await repository(api).publish(await api.client("platform_admin"))
        assert api.parts.packages is not None
        began = asyncio.Event()

        async def unread(message: Any) -> None:
            if message["type"] == "http.response.body":
                began.set()
                await asyncio.sleep(3600)

        async def silent() -> Any:
            await asyncio.sleep(3600)

        path = (await address(api, "1.1.0")).removeprefix(PACKAGES_URL)
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
            "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
            "root_path": "", "headers": [(b"host", b"x")], "client": ("10.0.0.1", 1), "server": ("x", 80),
        }  # fmt: skip
        reading = asyncio.create_task(make_app(api.parts, "1")(scope, silent, unread))
        async with asyncio.timeout(10):
            await began.wait()
            await reading
        with contextlib.ExitStack() as places:
            for _ in range(api.parts.packages.settings.downloads):
                places.enter_context(api.parts.packages.sending())


async def test_API_18_metadata_is_read_from_disk_once(tmp_path: Path) -> None:
    """Anybody may ask for it; each answer that is read slowly would hold a copy of its own."""
    async with api_in(tmp_path) as api:
        await repository(api).publish(await api.client("platform_admin"))
        packages = api.parts.packages
        assert packages is not None
        assert packages.metadata()
        assert packages.metadata() is packages.metadata()
        assert (await api.bearer("").get(METADATA)).content == packages.metadata()


@pytest.mark.parametrize("role", ["tenant_admin", "project_admin", "project_viewer", "auditor"])
async def test_releases_are_the_platforms_to_publish(tmp_path: Path, role: str) -> None:
    async with api_in(tmp_path) as api:
        client = await api.client(role)
        assert (await client.put(RELEASES, content=repository(api).document(NOW))).status_code == 403
