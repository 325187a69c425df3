"""One request in the hands of a route: who asks, what they sent, and the parts that can answer."""

import secrets
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.control.api.authz import is_unlimited, permit_project
from hostler.control.api.bundles import Bundles
from hostler.control.api.lines import Lines
from hostler.control.api.principal import Authenticator, Caller, Projects
from hostler.control.bundles.files import BundleFiles
from hostler.control.delivery.packages import Packages
from hostler.control.engine import Engine
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.submit import OWN_KEYS
from hostler.control.metrics import Metrics
from hostler.control.rpc.link import Links
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.rpc.relays import Relays
from hostler.control.samples import SampleBoard
from hostler.control.store.records import OperationView
from hostler.control.store.samples import SampleFile
from hostler.control.telemetry import Telemetry
from hostler.control.webhooks.send import Sender

T = TypeVar("T")
MAX_BODY = 1 << 20
MAX_CATALOG = 16 << 20
MAX_KEY = 200


@dataclass(frozen=True)
class Parts:
    """What routes share."""

    engine: Engine
    board: ProgressBoard
    authenticator: Authenticator
    projects: Projects
    links: Links
    bundles: Bundles
    metrics: Metrics
    webhooks: Sender
    code_bundles: BundleFiles
    relays: Relays
    lines: Lines
    telemetry: Telemetry | None = None
    samples: SampleBoard | None = None
    sample_file: SampleFile | None = None  # None where nothing is kept
    packages: Packages | None = None


@dataclass
class Call:
    """Attributes:
    traceparent: what the request is a part of: the caller's, or this request's own span.
    reached_engine: a command was made of the call, so the engine's audit has it, whatever came of it.
    """

    request: Request
    parts: Parts
    principal: Caller
    correlation_id: str
    traceparent: str = ""
    reached_engine: bool = field(default=False, init=False)

    @property
    def engine(self) -> Engine:
        return self.parts.engine

    async def execute(self, command: Command) -> Any:
        self.reached_engine = True
        if self.parts.telemetry is None:
            return await self.engine.execute(command)
        with self.parts.telemetry.span(f"store {type(command).__name__}", self.traceparent):
            return await self.engine.execute(command)

    async def is_still_welcome(self) -> bool:
        """Whether the token that opened a stream still names the same principal."""
        try:
            now = await self.parts.authenticator.of(self.request.headers.get("authorization", ""))
        except HostlerError:
            return False
        return now == self.principal

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    async def body(self, type_: type[T], limit: int = MAX_BODY) -> T:
        """Raises `invalid_request`, `unknown_field` or `too_large`."""
        return decode_json(await self.bytes(limit), type_, what="body")

    async def bytes(self, limit: int = MAX_BODY) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.request.stream():
            size += len(chunk)
            if size > limit:
                raise error("too_large", f"the body is larger than {limit} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def idempotency_key(self, in_body: str) -> str:
        """From the body or the header; without one no two requests are the same. Raises `invalid_request`."""
        in_header = self.request.headers.get("idempotency-key", "")
        if len(in_header) > MAX_KEY:
            raise error("invalid_request", f"the header idempotency-key is longer than {MAX_KEY} characters")
        if in_body and in_header and in_body != in_header:
            raise error("invalid_request", "idempotency key of header and body differ", pointer="/idempotency_key")
        if (in_body or in_header).startswith(OWN_KEYS):
            message = f"an idempotency key that begins with {OWN_KEYS!r} is the control plane's own"
            raise error("invalid_request", message, pointer="/idempotency_key")
        return in_body or in_header or secrets.token_hex(16)

    async def project(self) -> str:
        """The project in the path, if it is in the principal's scope. Raises `not_found`."""
        project_id = self.path("project_id")
        if not is_unlimited(self.principal):
            permit_project(self.principal, await self.parts.projects.org_of(project_id), project_id)
        return project_id

    async def named_project(self, project_id: str) -> str:
        """The tenant of a project named otherwise than in the path. Raises `not_found` out of scope."""
        org_id = await self.parts.projects.org_of(project_id)
        permit_project(self.principal, org_id, project_id)
        return org_id

    async def operation(self) -> OperationView:
        """The operation in the path, of the project in the path. Raises `not_found`."""
        project_id, operation_id = await self.project(), self.path("operation_id")
        found = await self.engine.reader.operation(project_id, operation_id)
        if found is None:
            raise error("not_found", f"there is no operation {operation_id!r} in project {project_id!r}")
        return found
