"""Our errors as gRPC statuses; one edge for what nobody expected."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

_log = get_logger("hostler.control.rpc")
CODE_KEY = "hostler-error-code"
HINT_KEY = "hostler-error-hint"
R = TypeVar("R")


async def abort(context: Any, err: HostlerError) -> None:
    """Ends the call with the error's status, sentence, code and hint."""
    metadata = ((CODE_KEY, err.code), (HINT_KEY, err.hint.encode("ascii", "replace").decode()))
    await context.abort(grpc.StatusCode[err.grpc_status], err.message, metadata)


def guarded(call: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
    """For unary methods: an error becomes its status, a bug becomes INTERNAL and a log line."""

    @functools.wraps(call)
    async def run(self: Any, request: Any, context: Any) -> R:
        try:
            return await call(self, request, context)
        except HostlerError as err:
            await abort(context, err)
            raise
        except grpc.aio.AbortError:
            raise
        except Exception as err:
            _log.exception("rpc.failed", method=call.__name__)
            await context.abort(grpc.StatusCode.INTERNAL, "internal error", ((CODE_KEY, "internal_error"),))
            raise AssertionError("abort returns never") from err

    return run
