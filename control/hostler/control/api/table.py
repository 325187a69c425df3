"""Every route in one table: method, path, permission, function, body. OpenAPI and the tests read it too.

The router asks row by row: what is called most stands first.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from hostler.control.api import bodies
from hostler.control.api.call import Call
from hostler.control.api.principal import Caller
from hostler.control.api.routes import artifacts, audit, definitions, nodes, operations, principals, trust
from hostler.control.store import records
from hostler.pki.bundle import Bundle
from hostler.pki.checkpoint import CheckpointPage

Handler = Callable[[Call], Awaitable[Any]]


class Route(NamedTuple):
    """Attributes:
    action: what a mutation is called in the audit; "" for what only reads.
    query: names of the query parameters; any other is refused.
    events: the answer may be server-sent events.
    binary: the answer is bytes.
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
    action: str = ""
    answer: Any = None

    @property
    def name(self) -> str:
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__}"


_PAGE = ("cursor", "page_size")
_ADMIN = "/api/v1/admin"
_PROJECT = "/api/v1/projects/{project_id}"
_OPERATION = f"{_PROJECT}/operations/{{operation_id}}"
_DEFINITION = f"{_ADMIN}/operation-definitions/{{ref}}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{_PROJECT}/operations",
        "operations.submit",
        operations.submit,
        "Submit an operation",
        body=bodies.Submit,
        action="operation.submit",
        answer=bodies.Submitted,
    ),
    Route(
        "GET",
        f"{_PROJECT}/operations",
        "operations.read",
        operations.listing,
        "List operations, newest first",
        query=(*_PAGE, "status"),
        answer=records.Page[records.OperationSummary],
    ),
    Route(
        "GET",
        _OPERATION,
        "operations.read",
        operations.get,
        "Show an operation with tasks and steps",
        answer=records.OperationView,
    ),
    Route(
        "POST",
        f"{_OPERATION}/cancel",
        "operations.cancel",
        operations.cancel,
        "Cancel an operation",
        action="operation.cancel",
        answer=bodies.OperationRef,
    ),
    Route(
        "POST",
        f"{_OPERATION}/retry",
        "operations.retry",
        operations.retry,
        "Retry from the first failed step",
        action="operation.retry",
        answer=bodies.OperationRef,
    ),
    Route(
        "GET",
        f"{_OPERATION}/logs",
        "operations.read",
        operations.logs,
        "Log lines, in pages or with follow=true as server-sent events",
        query=(*_PAGE, "step_id", "follow"),
        events=True,
        answer=records.Page[records.LogView],
    ),
    Route(
        "GET",
        f"{_OPERATION}/events",
        "operations.read",
        operations.events,
        "The operation's events and progress as server-sent events",
        events=True,
        answer=records.EventView,
    ),
    Route(
        "GET",
        f"{_OPERATION}/audit-bundle",
        "operations.read",
        operations.audit_bundle,
        "The receipt chains of the operation's nodes",
        answer=Bundle,
    ),
    Route(
        "GET",
        f"{_OPERATION}/envelope",
        "operations.read",
        operations.envelope,
        "The signed envelope of a node's task",
        query=("node",),
        answer=bodies.SignedDocument,
    ),
    Route(
        "GET",
        f"{_OPERATION}/artifacts",
        "operations.read",
        artifacts.listing,
        "What the operation took in and gave out, by digest",
        query=_PAGE,
        answer=records.Page[records.ArtifactView],
    ),
    Route(
        "GET",
        f"{_OPERATION}/artifacts/{{artifact_id}}",
        "operations.read",
        artifacts.download,
        "A small output of the operation, with its digest",
        binary=True,
    ),
    Route("GET", "/api/v1/whoami", "self.read", principals.whoami, "The calling principal", answer=Caller),
    Route(
        "POST",
        f"{_ADMIN}/operation-definitions",
        "definitions.write",
        definitions.register,
        "Register the definitions of a signed catalog",
        body=bodies.CatalogBundle,
        action="catalog.register",
        answer=bodies.Registered,
    ),
    Route(
        "GET",
        f"{_ADMIN}/operation-definitions",
        "definitions.read",
        definitions.listing,
        "List definitions",
        query=_PAGE,
        answer=records.Page[records.DefinitionView],
    ),
    Route("GET", _DEFINITION, "definitions.read", definitions.get, "Show a definition", answer=records.DefinitionView),
    Route(
        "POST",
        f"{_DEFINITION}/deprecate",
        "definitions.write",
        definitions.deprecate,
        "Deprecate a definition",
        action="definition.set_state",
        answer=bodies.DefinitionState,
    ),
    Route(
        "POST",
        f"{_DEFINITION}/retire",
        "definitions.write",
        definitions.retire,
        "Retire a definition",
        action="definition.set_state",
        answer=bodies.DefinitionState,
    ),
    Route(
        "GET",
        f"{_ADMIN}/nodes",
        "nodes.admin",
        nodes.all_nodes,
        "List all nodes",
        query=_PAGE,
        answer=records.Page[records.NodeView],
    ),
    Route(
        "GET",
        f"{_ADMIN}/nodes/{{node_id}}",
        "nodes.admin",
        nodes.get,
        "Show a node, by id or name",
        answer=records.NodeView,
    ),
    Route(
        "POST",
        f"{_ADMIN}/nodes/{{node_id}}/revoke",
        "nodes.admin",
        nodes.revoke,
        "Revoke a node",
        action="node.revoke",
        answer=bodies.NodeState,
    ),
    Route(
        "POST",
        f"{_ADMIN}/nodes/{{node_id}}/release",
        "nodes.admin",
        nodes.release,
        "End the hold of a node",
        action="node.release",
        answer=bodies.NodeState,
    ),
    Route(
        "GET",
        f"{_ADMIN}/trust",
        "trust.admin",
        trust.show,
        "The keyset in force and the nodes that have proved it",
        answer=bodies.TrustView,
    ),
    Route(
        "GET",
        f"{_ADMIN}/trust/tasks",
        "trust.admin",
        trust.tasks,
        "The open tasks that a key has signed",
        query=("key_id",),
        answer=bodies.SignedTasks,
    ),
    Route(
        "POST",
        f"{_ADMIN}/trust/keyset",
        "trust.admin",
        trust.publish,
        "Publish a keyset that the root has signed",
        body=bodies.SignedDocument,
        action="keyset.publish",
        answer=bodies.KeysetPublished,
    ),
    Route(
        "POST",
        f"{_ADMIN}/enrolment-tokens",
        "nodes.admin",
        nodes.create_token,
        "Make a one-use enrolment token",
        body=bodies.EnrolmentToken,
        action="node.token.create",
        answer=bodies.TokenMade,
    ),
    Route(
        "GET",
        f"{_ADMIN}/audit-bundle",
        "audit.admin",
        audit.bundle,
        "The receipt chain of a node, or with all=true of every node",
        query=("node_id", "all"),
        answer=Bundle,
    ),
    Route(
        "GET",
        f"{_ADMIN}/checkpoints",
        "audit.admin",
        audit.checkpoints,
        "Checkpoints over all receipt chains, oldest first",
        query=(*_PAGE, "after", "receipts"),
        answer=CheckpointPage,
    ),
    Route(
        "POST",
        f"{_ADMIN}/checkpoints/{{index}}/countersignatures",
        "audit.witness",
        audit.countersign,
        "Hand in a witness's countersignature",
        action="checkpoint.countersign",
        answer=bodies.Countersigned,
    ),
    Route(
        "POST",
        f"{_ADMIN}/principals",
        "principals.admin",
        principals.create,
        "Make a principal and its token",
        body=bodies.NewPrincipal,
        action="principal.create",
        answer=bodies.PrincipalMade,
    ),
    Route(
        "GET",
        f"{_ADMIN}/principals",
        "principals.admin",
        principals.listing,
        "List principals",
        query=_PAGE,
        answer=records.Page[records.Principal],
    ),
    Route(
        "DELETE",
        f"{_ADMIN}/principals/{{name}}",
        "principals.admin",
        principals.revoke,
        "Revoke a principal",
        action="principal.revoke",
        answer=bodies.PrincipalRevoked,
    ),
    Route(
        "GET",
        f"{_PROJECT}/nodes",
        "nodes.read",
        nodes.of_project,
        "List a project's nodes",
        query=_PAGE,
        answer=records.Page[records.NodeView],
    ),
)
