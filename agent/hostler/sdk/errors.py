"""What can go wrong.

SdkError
├── NotInTask              there is no job around this code
├── NoController           there is a job, and nobody to ask: it runs locally
├── ApiError               the task API refused; `code` is Hostler's error code
│   └── ControllerUnreachable   nobody answers now; try again
├── ActorNotFound          no endpoint of that name came in time
├── ActorTimeout           the actor did not answer in time; whether the call ran is unknown
└── ActorError             the call ran and raised; `type` and `message` are the actor's
"""

from __future__ import annotations


class SdkError(Exception):
    """Base of all."""


class NotInTask(SdkError):
    pass


class NoController(SdkError):
    pass


class ApiError(SdkError):
    """Attributes:
    status: of the HTTP answer.
    """

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} [{code}]" + (f"; {hint}" if hint else ""))
        self.status, self.code, self.message, self.hint = status, code, message, hint


class ControllerUnreachable(ApiError):
    pass


class ActorNotFound(SdkError):
    pass


class ActorTimeout(SdkError):
    pass


class ActorError(SdkError):
    def __init__(self, type_: str, message: str) -> None:
        super().__init__(f"{type_}: {message}")
        self.type, self.message = type_, message
