"""Actors and functions that tests of the SDK run by name."""

import time
from pathlib import Path
from typing import Any

from hostler import sdk


class Worker:
    def __init__(self, base: int = 0) -> None:
        self.base = base

    def add(self, number: int) -> int:
        return self.base + number

    def echo(self, value: Any) -> Any:
        return value

    def fail(self, message: str) -> None:
        raise ValueError(message)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def whose_job(self) -> str:
        return sdk.context().info.job

    def _secret(self) -> str:
        return "secret"


def write(target: str, text: str) -> None:
    Path(target).write_text(text)
