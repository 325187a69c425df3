"""The error code that something is refused with."""

from collections.abc import Callable
from typing import Any

import pytest

from hostler.base.errors import HostlerError


def refused(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        call(*arguments, **named)
    return caught.value.code


def code_of(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """Nothing when it is not refused."""
    try:
        call(*arguments, **named)
    except HostlerError as err:
        return err.code
    return ""
