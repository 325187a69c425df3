"""The names that others rely on, by requirement: endpoints, tables, columns, events, enums, error codes.

What is asked for and does not exist yet stands in `COMING`, with the part that brings it; an entry that has
come true fails the test, so that the list can only shrink.
"""

import re
import sqlite3

import pytest

from hostler.base.codes import CODES
from hostler.catalog.policy import TARGET_KINDS, PolicyOverlay
from hostler.control.api import openapi
from hostler.control.api.authz import ROLES
from hostler.control.kernel import events
from hostler.control.kernel.submit import TRIGGER_SOURCES
from hostler.control.kernel.transitions import DEFINITION_STATES, OPERATION_STATES
from hostler.control.store import db as store_db
from hostler.control.store.axes import CONNECTIONS

ENDPOINTS = {
    "API-01": "POST /api/v1/admin/operation-definitions",
    "API-02": "PATCH /api/v1/admin/operation-definitions/{}",
    "API-03": "POST /api/v1/admin/operation-definitions/{}/deprecate",
    "API-04": "POST /api/v1/admin/operation-definitions/{}/retire",
    "API-05": "GET /api/v1/tenants/{}/operation-policies/{}",
    "API-05 PUT": "PUT /api/v1/tenants/{}/operation-policies/{}",
    "API-06": "GET /api/v1/projects/{}/operation-policies/{}",
    "API-06 PUT": "PUT /api/v1/projects/{}/operation-policies/{}",
    "API-07": "POST /api/v1/projects/{}/operations",
    "API-08": "GET /api/v1/projects/{}/operations/{}",
    "API-09": "POST /api/v1/projects/{}/operations/{}/cancel",
    "API-10": "POST /api/v1/projects/{}/operations/{}/retry",
    "API-11": "GET /api/v1/projects/{}/operations/{}/logs",
    "API-19": "GET /api/v1/admin/nodes",
    "API-21 cordon": "POST /api/v1/admin/nodes/{}/cordon",
    "API-21 drain": "POST /api/v1/admin/nodes/{}/drain",
    "API-21 uncordon": "POST /api/v1/admin/nodes/{}/uncordon",
    "API-21 quarantine": "POST /api/v1/admin/nodes/{}/quarantine",
    "API-21 clear": "POST /api/v1/admin/nodes/{}/clear",
    "API-21 probe": "POST /api/v1/admin/nodes/{}/probe",
    "API-21 recover": "POST /api/v1/admin/nodes/{}/recover",
    "API-22": "POST /api/v1/projects/{}/allocations",
    "API-22 show": "GET /api/v1/projects/{}/allocations/{}",
    "API-22 release": "POST /api/v1/projects/{}/allocations/{}/release",
    "API-22 force": "POST /api/v1/projects/{}/allocations/{}/force-release",
    "API-23": "GET /api/v1/events",
    "API-26 submit": "POST /api/v1/projects/{}/jobs",
    "API-26 list": "GET /api/v1/projects/{}/jobs",
    "API-26 show": "GET /api/v1/projects/{}/jobs/{}",
    "API-26 tasks": "GET /api/v1/projects/{}/jobs/{}/tasks",
    "API-26 wait": "GET /api/v1/projects/{}/jobs/{}/wait",
    "API-26 cancel": "POST /api/v1/projects/{}/jobs/{}/cancel",
    "API-26 exec": "POST /api/v1/projects/{}/jobs/{}/exec",
    "API-26 profile": "POST /api/v1/projects/{}/jobs/{}/profile",
    "API-27": "GET /api/v1/projects/{}/endpoints",
    "JB-08": "PUT /api/v1/projects/{}/bundles/{}",
}
TABLES = {
    "DM-01": ("operation_definitions", ("operation_type", "backend_type", "state")),
    "DM-02": (
        "operation_definition_versions",
        ("input_schema", "step_plan", "artifact_constraints", "capabilities", "digest", "state"),
    ),
    "DM-03": ("operation_policy_overrides", ("scope", "scope_id", "operation_type")),
    "DM-04": (
        "operations",
        (
            "operation_id", "operation_type", "version", "org_id", "project_id", "requested_by_user_id",
            "target_selector", "idempotency_key", "correlation_id", "status", "trigger_source",
            "linked_allocation_id", "linked_node_id",
        ),
    ),
    "DM-05": (
        "operation_steps",
        (
            "attempt_number", "step_kind", "resolved_profile", "hardware_match", "status", "error_code",
            "duration_ms", "receipt_digest",
        ),
    ),
    "DM-06": ("operation_artifacts", ("operation_id", "sha256", "kind")),
    "DM-08": ("audit_logs", ("actor", "scope", "action", "result", "before", "after")),
    "DM-09": ("nodes", ("capabilities", "drift", "health", "scheduling", "reclaim")),
    "DM-11": ("allocations", ("allocation_id", "org_id", "project_id", "state")),
    "DM-12": ("events", ("type", "body", "correlation_id")),
    "DM-13": ("certificates", ("serial", "thumbprint", "state")),
    "DM-14": ("tasks", ("child_cluster", "backend_id")),
    "DM-15": ("local_tasks", ("task_id",)),
    "DM-16": ("task_attempts", ("attempt_uid", "node_id", "state", "exit", "started_at_ms", "finished_at_ms")),
    "DM-21": (
        "endpoints",
        ("endpoint_id", "name", "address", "namespace", "attempt_uid", "metadata", "lease_deadline_ms"),
    ),
    "JB-01": ("jobs", ("job_id", "name", "parent_id", "owner", "spec", "priority")),
    "JB-08": ("bundles", ("sha256", "org_id", "project_id", "size_bytes")),
    "EF-10": ("node_loads", ("node_id", "cpu_millis", "memory_bytes", "disk_bytes", "gpus", "tpus")),
}  # fmt: skip
ENUMS = {
    "OP-08": (OPERATION_STATES, ("queued", "running", "succeeded", "failed", "canceled")),
    "OP-18": (DEFINITION_STATES, ("active", "deprecated", "retired")),
    "DM-04": (
        TRIGGER_SOURCES,
        (
            "allocation_provision", "allocation_release", "admin", "tenant_request", "agent_lifecycle",
            "federation", "system",
        ),
    ),
    "AZ-07 keys": (
        PolicyOverlay.__struct_fields__,
        (
            "enabled", "max_concurrency", "timeout_seconds", "allowed_artifact_sources", "allowed_target_kinds",
            "require_signature_verification", "max_artifact_size_bytes",
        ),
    ),
    "OD-15 connection": (CONNECTIONS, ("enrolling", "connected", "lost", "retired")),
    "OP-09": (TARGET_KINDS, ("node", "allocation", "group")),
    "EV-01": (
        (events.REQUESTED, events.PROGRESS, *events.TERMINAL.values()),
        ("operation.requested", "operation.progress", "operation.completed", "operation.failed", "operation.canceled"),
    ),
}  # fmt: skip
ROLE_NAMES = {"platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer"}
PROGRESS_FIELDS = {
    "operation_id", "correlation_id", "current_step_index", "total_steps", "current_step_name", "step_status",
    "step_started_at", "step_percent",
}  # fmt: skip
ERRORS = {
    "OP-01": ("definition_exists", 409),
    "OP-02": ("input_schema", 422),
    "OP-06": ("backend_not_implemented", 503),
    "OP-09": ("target_not_owned", 403),
    "OP-19": ("secret_in_payload", 422),
    "RT-01": ("idempotency_mismatch", 409),
    "API-02": ("definition_immutable", 409),
    "API-04": ("definition_retired", 409),
    "API-06": ("policy_weakens", 422),
    "AZ-08": ("policy_denied", 403),
    "AR-06": ("source_denied", 409),
    "SK-01": ("digest_required", 422),
    "CG-02": ("incompatible", 409),
    "SK-01 wrong": ("digest_mismatch", 500),
    "RD-04": ("catalog_rollback", 409),
    "design 5": ("plan_drift", 409),
    "SK-25": ("path_denied", 409),
    "AZ-09": ("local_policy_denied", 409),
}
COMING: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Table or view → its columns, generated ones included."""
    db: sqlite3.Connection = store_db.open_writer(tmp_path_factory.mktemp("store") / "control.db")
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    found = {name: {row[1] for row in db.execute(f"PRAGMA table_xinfo({name})")} for name in names}
    db.close()
    return found


def check(requirement: str, is_there: bool) -> None:
    if requirement in COMING:
        assert not is_there, f"{requirement} has come true: take it off the list"
        pytest.xfail(f"{requirement} has not been built yet")
    assert is_there, requirement


@pytest.mark.parametrize("requirement", ENDPOINTS)
def test_the_endpoint_is_served(requirement: str) -> None:
    paths = openapi.document("1")["paths"]
    served = {f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}" for path in paths for method in paths[path]}
    check(requirement, ENDPOINTS[requirement] in served)


@pytest.mark.parametrize("requirement", TABLES)
def test_the_table_has_its_columns(requirement: str, columns: dict[str, set[str]]) -> None:
    table, wanted = TABLES[requirement]
    check(requirement, set(wanted) <= columns.get(table, set()))


@pytest.mark.parametrize("requirement", ENUMS)
def test_the_enum_has_exactly_its_values(requirement: str) -> None:
    ours, wanted = ENUMS[requirement]
    assert set(ours) == set(wanted)


def test_EV_02_progress_carries_its_fields() -> None:
    assert set(events.ProgressBody.__struct_fields__) >= PROGRESS_FIELDS


def test_AZ_01_to_05_the_roles_are_those_and_the_auditor() -> None:
    assert set(ROLES) == ROLE_NAMES | {"auditor"}


@pytest.mark.parametrize("requirement", ERRORS)
def test_the_error_code_exists_with_its_status(requirement: str) -> None:
    from hostler.base.errors import error

    code, status = ERRORS[requirement]
    assert code in CODES
    assert error(code, "x").http_status == status


def test_every_requirement_named_here_exists_nowhere_twice() -> None:
    assert set(ENDPOINTS) | set(TABLES) >= COMING
    assert len(set(ENDPOINTS.values())) == len(ENDPOINTS)
