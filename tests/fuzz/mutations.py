"""Ways to bend bytes. Each takes a valid sample and another one, and gives something else."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

Mutation = Callable[[random.Random, bytes, bytes], bytes]
_SPELLINGS = (b"NaN", b"Infinity", b"1e400", b"-0", b"0x1", b"01", b"1.0", b"9" * 40, b"true", b"null", b'"1"', b"[]")
_CHARACTERS = ("\u0000", "\ufeff", "é", "e\u0301", "\u202e", "ｆ", "\ud800", "İ", "K", "\U0001f40e")


def flip_bit(rng: random.Random, data: bytes, _: bytes) -> bytes:
    out = bytearray(data)
    for _n in range(rng.choice((1, 1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_byte(rng: random.Random, data: bytes, _: bytes) -> bytes:
    out = bytearray(data)
    out[rng.randrange(len(out))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def cut(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def cut_out(rng: random.Random, data: bytes, _: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 64) :]


def insert(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 32)) + data[at:]


def repeat(rng: random.Random, data: bytes, _: bytes) -> bytes:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randint(1, 200)]
    at = rng.randrange(len(data) + 1)
    return data[:at] + piece + data[at:]


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def append(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data + rng.choice((other, b"\0", b" ", b"{}", rng.randbytes(8)))


BYTES: tuple[Mutation, ...] = (flip_bit, flip_bit, set_byte, cut, cut_out, insert, repeat, splice, append)


def respell(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Another spelling of a number or text inside JSON."""
    digits = [n for n, byte in enumerate(data) if 48 <= byte <= 57]
    if digits and rng.random() < 0.6:
        at = rng.choice(digits)
        return data[:at] + rng.choice(_SPELLINGS) + data[at + 1 :]
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_CHARACTERS).encode("utf-8", "surrogatepass") + data[at:]


def _in_document(rng: random.Random, data: bytes, other: bytes, bend: Callable[[dict[str, Any]], None]) -> bytes:
    try:
        document = json.loads(data)
        bend(document)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return flip_bit(rng, data, other)
    separators = rng.choice(((",", ":"), (", ", ": ")))
    text = json.dumps(document, separators=separators, ensure_ascii=rng.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def bend_dsse(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Works on a DSSE document's parts: payload, signatures, key ids, type."""

    def bend(document: dict[str, Any]) -> None:
        theirs = json.loads(other)
        if "manifest" in document:  # a catalog: its signed part
            document, theirs = document["manifest"], theirs["manifest"]
        choice = rng.randrange(9)
        signatures = document["signatures"]
        if choice == 0:
            document["payload"] = theirs["payload"]
        elif choice == 1:
            document["signatures"] = theirs["signatures"]
        elif choice == 2:
            signatures.append(dict(rng.choice(signatures)))
        elif choice == 3:
            signatures[0]["keyid"] = rng.choice(
                (theirs["signatures"][0]["keyid"], "", "0" * 64, signatures[0]["keyid"].upper())
            )
        elif choice == 4:
            signatures[0]["sig"] = base64.b64encode(rng.randbytes(rng.choice((0, 32, 63, 64, 65)))).decode()
        elif choice == 5:
            document["payloadType"] = rng.choice(
                ("", "application/json", theirs["payloadType"], document["payloadType"] + " ")
            )
        elif choice == 6:
            document["signatures"] = rng.choice(([], [{}], None, {}, signatures * 20))
        elif choice == 7:
            document[rng.choice(("alg", "extra", "Payload"))] = "none"
        else:
            inner = base64.b64decode(document["payload"])
            bent = rng.choice((*BYTES, respell, bend_inside))(rng, inner, base64.b64decode(theirs["payload"]))
            document["payload"] = base64.b64encode(bent).decode()

    return _in_document(rng, data, other, bend)


def bend_inside(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Changes a value somewhere inside JSON, and writes it as canonically as before."""

    def bend(document: dict[str, Any]) -> None:
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            place[key] = rng.choice((None, 0, -1, 1, 2**53, 2**63, 2**64, "", [], {}, True, f"{place[key]}x"))
            return

    return _in_document(rng, data, other, bend)


JSON: tuple[Mutation, ...] = (*BYTES, respell, respell, bend_dsse, bend_dsse, bend_dsse, bend_inside)
