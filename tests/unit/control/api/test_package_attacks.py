"""API-18, LC-12, A4: packages that are cut, doubled, too long or sent while the disk is full; nothing half is left."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.control.delivery.packages import Packages
from support.http_api import UPDATES, Api, api_in
from support.published import RELEASES, Repository, package_of


async def wanted(api: Api, admin: Any) -> tuple[Repository, str, bytes]:
    """Metadata is judged, and one package of it is to be sent. → where to, and its bytes."""
    assert api.fleet.keys.update is not None
    repository = Repository(api.fleet.keys.update, versions=("1.1.0",))
    (missing,) = (await admin.put(RELEASES, content=repository.document())).json()["missing"]
    return repository, f"{RELEASES}/packages/{missing['sha256']}", package_of("1.1.0")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "packages").iterdir())


async def test_API_18_an_upload_that_is_cut_leaves_nothing_and_may_come_again(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        _, path, data = await wanted(api, admin)
        headers = [(b"authorization", admin.headers["authorization"].encode()), (b"host", b"control")]
        scope = {"type": "http", "http_version": "1.1", "method": "PUT", "path": path, "raw_path": path.encode(),
                 "query_string": b"", "headers": headers, "scheme": "http", "client": ("127.0.0.1", 1),
                 "server": ("control", 80), "root_path": ""}  # fmt: skip
        said: list[Any] = []
        parts = iter([{"type": "http.request", "body": data[:7000], "more_body": True}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(parts, {"type": "http.disconnect"})

        async def send(message: Any) -> None:
            said.append(message)

        await api.app(scope, receive, send)
        assert [each["status"] for each in said if "status" in each] in ([422], [])
        assert left(tmp_path) == []
        assert (await admin.put(path, content=data)).status_code == 201


async def test_API_18_one_package_sent_by_two_at_once_is_kept_once_and_a_third_waits(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        repository, path, data = await wanted(api, admin)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield data[:100]
            begun.set()
            await go_on.wait()
            yield data[100:]

        async def sent() -> Any:
            return await admin.put(path, content=slow())

        first = asyncio.create_task(sent())
        second = asyncio.create_task(sent())
        await begun.wait()
        await asyncio.sleep(0.1)
        third = await admin.put(path, content=data)
        assert third.status_code in (201, 429), third.text
        go_on.set()
        answers = [await first, await second]
        assert {answer.status_code for answer in answers} <= {200, 201, 429}
        assert 201 in {answer.status_code for answer in (*answers, third)}
        assert left(tmp_path) == [path.rpartition("/")[2]]
        assert (tmp_path / "packages" / left(tmp_path)[0]).read_bytes() == data
        assert (await repository.publish(admin))["published"]


async def test_LC_12_metadata_that_does_not_fit_on_the_disk_is_not_in_force_and_the_one_before_is(
    tmp_path: Path,
) -> None:
    packages = Packages(tmp_path / "packages", UPDATES)
    packages.put_metadata(b"before")
    with no_file_larger_than(1000), pytest.raises(HostlerError) as caught:
        packages.put_metadata(b"x" * 5000)
    assert (caught.value.code, caught.value.message) == (
        "store_unavailable", "metadata.json cannot be written: File too large",
    )  # fmt: skip
    assert packages.metadata() == b"before"
    assert left(tmp_path) == ["metadata.json"]
    assert (tmp_path / "packages/metadata.json").read_bytes() == b"before"


async def test_A4_uploads_to_addresses_that_are_none_are_refused_before_a_byte_is_kept(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        await wanted(api, admin)
        for name in ("0" * 64, "%2e%2e%2fcontrol.db", "metadata.json", "A" * 64, "a" * 63, "a" * 5000):
            answer = await admin.put(f"{RELEASES}/packages/{name}", content=b"x")
            assert answer.status_code in (404, 405, 414, 422), (name[:20], answer.text)
        assert not (tmp_path / "packages").exists()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to write more, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
