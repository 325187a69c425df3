"""What a route is."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from hostler.control.api.call import Call

Handler = Callable[[Call], Awaitable[Any]]


class Route(NamedTuple):
    """Attributes:
    action: what a mutation is called in the audit; "" for what only reads.
    query: names of the query parameters; any other is refused.
    any_query: what stands there is not ours to read.
    events: the answer may be server-sent events.
    binary: the answer is bytes.
    upload: the body is bytes.
    answer: type of the answer's body.
    """

    method: str
    path: str
    permission: str
    handler: Handler
    summary: str
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    events: bool = False
    binary: bool = False
    upload: bool = False
    action: str = ""
    answer: Any = None
    any_query: bool = False

    @property
    def served(self) -> str:
        """The path as the router takes it: a job's own path has slashes, and so has what is asked of a task."""
        return self.path.replace("{job_id}", "{job_id:path}").replace("{rest}", "{rest:path}")

    @property
    def name(self) -> str:
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__}"
