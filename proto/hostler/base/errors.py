"""What can go wrong, by who has to act.

    HostlerError
    ├── InvalidInput      the caller's data is wrong            never retry        422  INVALID_ARGUMENT
    ├── Unauthenticated   we do not know who you are            never              401  UNAUTHENTICATED
    ├── Denied            you may not                           never              403  PERMISSION_DENIED
    ├── Refused           the node says no                      needs a new task   409  FAILED_PRECONDITION
    ├── NotFound          nothing there under that name         after a look       404  NOT_FOUND
    ├── Conflict          state is not as assumed               after a look       409  ABORTED
    ├── Exhausted         quota, capacity, disk                 later, elsewhere   429  RESOURCE_EXHAUSTED
    ├── Unavailable       a dependency is away                  back off           503  UNAVAILABLE
    ├── StepFailed        the work ran and failed               the step's policy  -    -
    ├── Ambiguous         we do not know whether it happened    probe first        -    -
    └── Internal          our own bug                           no                 500  INTERNAL

Classes differ where handling differs; codes (`hostler.base.codes`) differ where the reader does.
`str(err)` is one lower-case sentence without a full stop and without its cause; the cause is chained.
"""

from typing import ClassVar

from hostler.base.codes import CODES


class HostlerError(Exception):
    """Base of every error that may reach a person or cross a wire.

    Args:
        code: a stable `error_code` listed in `hostler.base.codes.CODES`.
        message: what was wrong and where, one sentence.
        hint: what to do next; falls back to the code's own hint.
        pointer: JSON pointer of the offending value, where there is one.
        ids: correlation_id, operation_id, task_id, step_id as far as known.
    """

    http_status: int = 500  # of its family, where the code has none of its own
    grpc_status: ClassVar[str] = "INTERNAL"

    def __init__(self, code: str, message: str, *, hint: str = "", pointer: str = "", **ids: str) -> None:
        if code not in CODES:
            raise KeyError(f"error code {code!r} is not listed in hostler.base.codes")
        super().__init__(message)
        self.code = code
        self.http_status = CODES[code].http_status or type(self).http_status
        self.message = message
        self.hint = hint or CODES[code].hint
        self.pointer = pointer
        self.ids = ids


class InvalidInput(HostlerError):
    http_status = 422
    grpc_status = "INVALID_ARGUMENT"


class Unauthenticated(HostlerError):
    http_status = 401
    grpc_status = "UNAUTHENTICATED"


class Denied(HostlerError):
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class Refused(HostlerError):
    http_status = 409
    grpc_status = "FAILED_PRECONDITION"


class NotFound(HostlerError):
    http_status = 404
    grpc_status = "NOT_FOUND"


class NotAllowed(HostlerError):
    http_status = 405
    grpc_status = "UNIMPLEMENTED"


class Conflict(HostlerError):
    http_status = 409
    grpc_status = "ABORTED"


class Exhausted(HostlerError):
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"


class Unavailable(HostlerError):
    http_status = 503
    grpc_status = "UNAVAILABLE"


class StepFailed(HostlerError):
    """The work ran and failed; raised by step kinds, becomes the step's outcome."""


class Ambiguous(HostlerError):
    """An interrupted effect whose truth `probe` could not establish."""


class Internal(HostlerError):
    """Our own bug; ends the task, never the process."""


FAMILIES: dict[str, type[HostlerError]] = {
    cls.__name__: cls
    for cls in (
        InvalidInput,
        Unauthenticated,
        Denied,
        Refused,
        NotFound,
        NotAllowed,
        Conflict,
        Exhausted,
        Unavailable,
        StepFailed,
        Ambiguous,
        Internal,
    )
}


def error(code: str, message: str, *, hint: str = "", pointer: str = "", **ids: str) -> HostlerError:
    """The error of the family that `code` belongs to."""
    return FAMILIES[CODES[code].family](code, message, hint=hint, pointer=pointer, **ids)
