"""A6: headers that a tar puts before an entry, too many or senseless, are refused by both readers of archives."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.agent.oci.unpack import Budget, Unpacker
from hostler.base.errors import HostlerError
from hostler.pki import archive, deb


class Bytes:
    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def drain(self) -> None:
        self._file.read()


def block(data: bytes) -> bytes:
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)


def header(type_: bytes, content: bytes) -> bytes:
    info = tarfile.TarInfo("before")
    info.type, info.size = type_, len(content)
    return info.tobuf(tarfile.USTAR_FORMAT) + block(content)


def pax(name: str, value: str) -> bytes:
    text = f" {name}={value}\n"
    length = len(text) + len(str(len(text) + 2))
    return header(tarfile.XHDTYPE, f"{length}{text}".encode())


def entry_after(*headers: bytes) -> Bytes:
    return Bytes(b"".join(headers) + tarfile.TarInfo("entry").tobuf() + bytes(2 * tarfile.BLOCKSIZE))


@pytest.fixture(params=["package", "layer"])
def take(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Bytes], object]]:
    if request.param == "package":
        yield lambda stream: deb.walk(stream, 10, lambda *_: None)  # type: ignore[arg-type]
        return
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Unpacker(root, Budget(1 << 20, 10, lambda: None)).archive
    finally:
        os.close(root)


@pytest.mark.parametrize("type_", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_A6_headers_without_end_are_refused_before_the_library_goes_down_with_them(take, type_: bytes) -> None:
    content = b"a\0" if type_ == tarfile.GNUTYPE_LONGNAME else b"12 path=abc\n"
    with pytest.raises(HostlerError, match="headers before it") as caught:
        take(entry_after(*[header(type_, content)] * 2000))
    assert caught.value.code == "unsafe_archive"


def test_A6_as_many_as_a_package_has_are_taken(take) -> None:
    take(entry_after(*[pax("comment", "fine")] * archive.MOST_HEADERS))


def test_A6_a_header_whose_number_is_none_is_no_bug_of_ours(take) -> None:
    with pytest.raises(HostlerError) as caught:
        take(entry_after(pax("GNU.sparse.map", "many")))
    assert caught.value.code == "bad_response"
