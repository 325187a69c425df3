"""Arguments and results: JSON, or pickles between tasks of one namespace where the actor's owner wants them.

The caller of `load` has checked by then whose bytes they are: see `actors` and `handles`.
"""

from __future__ import annotations

import importlib
import json
import pickle
from typing import Any

from hostler.sdk.errors import SdkError

JSON, PICKLE = "application/json", "application/vnd.hostler.pickle"


def dump(value: Any, media_type: str) -> bytes:
    """Raises `SdkError` for what JSON cannot say."""
    if media_type == PICKLE:
        data: bytes = _pickler().dumps(value)
        return data
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as err:
        raise SdkError(f"an actor's argument or result is no JSON: {err}; see pickle=True in docs/tasks.md") from err


def load(data: bytes, media_type: str) -> Any:
    if media_type == PICKLE:
        return pickle.loads(data)  # noqa: S301 - signed with the key of the own namespace
    return json.loads(data)


def _pickler() -> Any:
    """cloudpickle where it is installed: it takes closures and lambdas, and makes plain pickles."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle
