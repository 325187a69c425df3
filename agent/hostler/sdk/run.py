"""`python -m hostler.sdk.run`: loads a callable inside the task and runs it (JB-09).

    python -m hostler.sdk.run module:function [--args JSON] [--kwargs JSON]
    python -m hostler.sdk.run --pickle /app/call.pkl
    python -m hostler.sdk.run --actor module:Class --name NAME [--args JSON] [--kwargs JSON] [--take-pickles]

Exit codes: what the callable exits with, 0 when it returns, 1 when it raises, 2 for wrong words here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostler.sdk import payload
from hostler.sdk.actor_jobs import host_actor
from hostler.sdk.errors import SdkError

_BUNDLE = "/app"


def main(words: Sequence[str]) -> None:
    said = _parsed(words)
    if said.pickle:
        function, args, kwargs = payload.load(Path(said.pickle).read_bytes(), payload.PICKLE)
        function(*args, **kwargs)
        return
    args, kwargs = json.loads(said.args), json.loads(said.kwargs)
    if said.actor:
        host_actor(loaded(said.actor)(*args, **kwargs), said.name, pickle=said.take_pickles)
        return
    loaded(said.callable)(*args, **kwargs)


def loaded(name: str) -> Any:
    """What a module holds under a (dotted) name. Raises `SdkError`."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise SdkError(f"{name} is nothing that can be called")
    return found


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hostler.sdk.run")
    parser.add_argument("callable", nargs="?", default="", help="module:function")
    parser.add_argument("--actor", default="", help="module:Class")
    parser.add_argument("--name", default="", help="under which the actor is registered")
    parser.add_argument("--pickle", default="", help="a file that pickled_call made")
    parser.add_argument("--args", default="[]")
    parser.add_argument("--kwargs", default="{}")
    parser.add_argument("--take-pickles", action="store_true", help="from tasks of the own namespace")
    said = parser.parse_args(words)
    if sum(bool(each) for each in (said.callable, said.actor, said.pickle)) != 1 or bool(said.actor) != bool(said.name):
        parser.error("name a module:function, an --actor with its --name, or a --pickle")
    return said


if __name__ == "__main__":
    for folder in (os.getcwd(), _BUNDLE):  # noqa: PTH109 - text, for the import path
        if folder not in sys.path and Path(folder).is_dir():
            sys.path.insert(0, folder)
    main(sys.argv[1:])
