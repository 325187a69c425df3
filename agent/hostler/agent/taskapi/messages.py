"""As much of HTTP/1.1 as the task API needs, read strictly: one request a connection, its body by Content-Length.

What is not certain to be one request is refused: no chunks, no folded headers, no repeated lengths, no bare line ends.
"""

import asyncio
import re
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from hostler.base.errors import HostlerError, error

MAX_HEAD, MAX_BODY, MAX_HEADERS = 16_384, 1 << 20, 64
_START = re.compile(rb"([A-Z]{3,7}) (/[!-~]{0,4095}) HTTP/1\.1", re.ASCII)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([ \t!-~\x80-\xff]*)", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,8}", re.ASCII)


class Request(NamedTuple):
    """`path` is split at its slashes and decoded part by part."""

    method: str
    path: tuple[str, ...]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The request of a connection; None where nobody says anything.

    Raises:
        HostlerError: `invalid_request`, `too_large`.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as err:
        if err.partial:
            raise _malformed("the request ends in its head") from err
        return None
    except asyncio.LimitOverrunError as err:
        raise error("too_large", f"the head of a request is {MAX_HEAD} bytes at most") from err
    method, target, headers = parse_head(head)
    length = _body_length(headers)
    if length and headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError as err:
        raise _malformed("the request ends in its body") from err
    path, query = split_target(target)
    return Request(method, path, query, headers, body)


def parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, target and headers. Raises `invalid_request`, `too_large`."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    start = _START.fullmatch(first)
    if start is None:
        raise _malformed("the first line is not METHOD /path HTTP/1.1")
    if len(lines) > MAX_HEADERS:
        raise error("too_large", f"a request has {MAX_HEADERS} headers at most")
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise _malformed("a header is malformed")
        name = found[1].decode("ascii").lower()
        if name in headers:
            raise _malformed(f"the header {name} stands twice")
        headers[name] = found[2].decode("latin-1").strip(" \t")
    return start[1].decode("ascii"), start[2].decode("ascii"), headers


def split_target(target: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Raises `invalid_request` for what cannot be decoded, or names a parameter twice."""
    raw, _, asked = target.partition("?")
    try:
        path = tuple(unquote(part, errors="strict") for part in raw.split("/")[1:])
        pairs = parse_qsl(asked, keep_blank_values=True, strict_parsing=bool(asked), errors="strict", max_num_fields=16)
    except ValueError as err:  # bad UTF-8 is one
        raise _malformed("the path or its query cannot be decoded") from err
    query = dict(pairs)
    if len(query) != len(pairs):
        raise _malformed("a parameter stands twice in the query")
    return path, query


def _body_length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise error("invalid_request", "bodies come with Content-Length here, not in chunks")
    text = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(text):
        raise _malformed("Content-Length is no number")
    if int(text) > MAX_BODY:
        raise error("too_large", f"a body is {MAX_BODY} bytes at most")
    return int(text)


def encoded(answer: Answer) -> bytes:
    """The bytes of an answer; the connection ends with it."""
    phrase = HTTPStatus(answer.status).phrase
    lines = [
        f"HTTP/1.1 {answer.status} {phrase}",
        f"content-type: {answer.media_type}",
        f"content-length: {len(answer.body)}",
        "connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + answer.body


def _malformed(reason: str) -> HostlerError:
    return error("invalid_request", f"this is not HTTP as it is spoken here: {reason}")
