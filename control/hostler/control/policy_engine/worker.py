"""The process that holds the Rego engine: it is told the modules, then answers one question at a time.

    stdin  ─▶ setup, question, question …        frames: four bytes of length, then JSON
    stdout ◀─ hello, answer, answer …

What a policy does to it (an endless rule, all memory, a crash in native code) it does to nobody else: who started it
kills it. Once set up it can open nothing any more, neither file nor socket, so that a hole in the engine's reading of
a tenant's inputs gives no key away.
"""

import ctypes
import json
import os
import re
import resource
import signal
import struct
from typing import Any

LENGTH = struct.Struct(">I")
MAX_SETUP = 128 * 1_048_576
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_ERROR = re.compile(r"\(error \d+:(?P<file>[^|)]+)\|(?P<at>\d+)\|\d+\s*\(errormsg \d+:(?P<said>[^)]*)\)")


class Faulty(Exception):
    """What is wrong with the modules, in the operator's words."""


def main() -> None:
    answers = os.dup(1)
    _silence()
    told = _read(0)
    if told is None:
        return
    setup = json.loads(told)
    try:
        engine = _Engine(setup["modules"], setup["query"])
        engine.reasons("{}")
    except Faulty as err:
        _write(answers, {"error": str(err)})
        return
    _shut_in()
    _write(answers, {"ready": True})
    while (question := _read(0)) is not None:
        try:
            answer: dict[str, Any] = {"reasons": engine.reasons(question)}
        except Faulty as err:
            answer = {"error": str(err)}
        _write(answers, answer)


class _Engine:
    def __init__(self, modules: list[list[str]], query: str) -> None:
        try:
            from regopy import Interpreter, RegoError
        except ImportError as err:
            raise Faulty("the engine is not installed: pip install 'hostler[policy]'") from err
        self._failure, self._query = RegoError, query
        self._rego = Interpreter()
        self._rego.strict_built_in_errors = True
        for name, source in modules:
            try:
                self._rego.add_module(name, source)
            except RegoError as err:
                raise Faulty(_placed(str(err), {name: source})) from err
        try:
            self._bundle = self._rego.build(query)
        except RegoError as err:
            raise Faulty(_placed(str(err), dict(modules))) from err

    def reasons(self, question: str) -> list[str]:
        """Raises `Faulty` where the query has no value, or another than a list of texts.

        Args:
            question: JSON. As text it is read exactly: given as values, the library cuts texts off at a NUL, and
                numbers at 64 bits, and a rule would look at another request than the one that is run.
        """
        try:
            self._rego.set_input_term(question)
            output = self._rego.query_bundle(self._bundle)
            expressions = output.results[0].expressions if output.results else [None]
        except ValueError as err:  # the engine's own word for it is no JSON
            raise Faulty(
                f"{self._query} cannot be evaluated: a function that is unknown or was given nonsense"
            ) from err
        except (self._failure, LookupError) as err:
            raise Faulty(f"{self._query} cannot be evaluated: {_placed(str(err), {})}") from err
        value = expressions[0] if expressions else None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Faulty(f"{self._query} is {_kind(value)} and not a list of reasons")
        return value


def _kind(value: Any) -> str:
    names = {bool: "true or false", str: "text", int: "a number", float: "a number", dict: "an object"}
    return "undefined" if value is None else names.get(type(value), "a list of other things")


def _placed(text: str, sources: dict[str, str]) -> str:
    """`file:line: what is wrong`, from the engine's own notation."""
    found = _ERROR.search(text)
    if found is None:
        return " ".join(text.split())[:300]
    name = found["file"]
    before = sources.get(name, "").encode()[: int(found["at"])]
    line = f":{before.count(10) + 1}" if name in sources else ""
    return f"{name}{line}: {found['said'].strip()}"


def _silence() -> None:
    """The engine prints what it dislikes; the answers have a way of their own."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.close(nothing)


def _shut_in() -> None:
    """From here on: no file, no socket, no core, no more rights, and no life after whoever started it.

    Memory is watched from outside: the engine reserves 256 GiB of address space, which no limit could tell from use.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        resource.setrlimit(limit, (0, 0))


def _read(descriptor: int) -> str | None:
    """The next frame; None at the end."""
    head = _exactly(descriptor, LENGTH.size)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    body = _exactly(descriptor, length) if length <= MAX_SETUP else None
    return None if body is None else body.decode()


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, min(size - len(data), 1_048_576))
        if not piece:
            return None
        data += piece
    return data


def _write(descriptor: int, value: Any) -> None:
    body = json.dumps(value).encode()
    data = LENGTH.pack(len(body)) + body
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
