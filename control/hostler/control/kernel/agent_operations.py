"""The signed operations that a lifecycle run asks for: stage, change, verify (LC-12, LC-13, LC-21)."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import agent_releases, agent_versions, package_urls
from hostler.control.kernel.actor import KERNEL
from hostler.control.kernel.agent_matrix import RECONCILE, REPAIR
from hostler.control.kernel.agent_progress import progress_of, with_progress
from hostler.control.kernel.agent_rows import AgentRunRow
from hostler.control.kernel.cancel import cancel_open_tasks
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import DefinitionRow, NodeRow, OperationRow
from hostler.control.kernel.submit import place
from hostler.control.kernel.transitions import FINAL, RUNNING

replace = msgspec.structs.replace


def place_stage(draft: Draft, run: AgentRunRow, node: NodeRow) -> AgentRunRow:
    """Has the node fetch and check the package. Raises what a submit is refused with, and `release_missing`."""
    run, known = _package(draft, run)
    count = progress_of(run).stages + 1
    operation_id = _place(draft, run, node, draft.settings.agents.stage_profile, known, f"stage.{count}")
    return _kept(draft, with_progress(replace(run, stage_operation_id=operation_id), stages=count))


def place_update(draft: Draft, run: AgentRunRow, node: NodeRow) -> AgentRunRow:
    """Has the node change itself, from here on within `switch_ms`. Raises as `place_stage` does."""
    limits, been = draft.settings.agents, progress_of(run)
    if been.back:
        profile, known = limits.rollback_profile, {"to_version": run.target_version, "reason": f"run {run.run_id}"}
    else:
        profile = limits.update_profile
        run, known = _package(draft, run)
    operation_id = _place(draft, run, node, profile, known, f"update.{been.stages}")
    run = replace(run, operation_id=operation_id, deadline_ms=draft.now_ms + limits.switch_ms)
    return _kept(
        draft,
        with_progress(run, instance_id=node.instance_id, changed_ms=draft.now_ms),
    )


def place_verify(draft: Draft, run: AgentRunRow, node: NodeRow) -> AgentRunRow:
    """Has the version that runs now finish a task of its own. Raises what a submit is refused with."""
    count = progress_of(run).verifications + 1
    profile = draft.settings.agents.verify_profile
    operation_id = _place(draft, run, node, profile, {"version": run.target_version}, f"verify.{count}")
    return _kept(draft, with_progress(replace(run, verify_operation_id=operation_id), verifications=count))


def _package(draft: Draft, run: AgentRunRow) -> tuple[AgentRunRow, dict[str, Any]]:
    """What a task has to know of the package; its address begins to run out now."""
    limits = draft.settings.agents
    suite = agent_versions.agent_of(draft, run.node_id).suite
    release = agent_releases.release_for(draft, run.target_version, suite)
    url, expires_ms = package_urls.mint(limits, release.file, run.run_id, draft.now_ms)
    known = {
        "version": release.version,
        "suite": release.suite,
        "url": url,
        "sha256": release.sha256,
        "size_bytes": release.size_bytes,
        "metadata_url": package_urls.metadata_url(limits),
        "repair": run.scenario in (REPAIR, RECONCILE),
    }
    return with_progress(run, url_expires_ms=expires_ms), known


def _place(draft: Draft, run: AgentRunRow, node: NodeRow, ref: str, known: dict[str, Any], part: str) -> str:
    row = draft.get(DefinitionRow, ref)
    if row is None:
        raise error("unknown_definition", f"no operation {ref} is registered", hint="publish the agent profiles")
    asked = definition_of(row.document).inputs.get("properties", {})
    operation_type, _, version = ref.rpartition("@")
    command = SubmitOperation(
        actor=KERNEL,
        org_id=node.org_id,
        project_id=node.project_id,
        operation_type=operation_type,
        version=version,
        inputs={name: value for name, value in known.items() if name in asked},
        target_selector=TargetSelector(nodes=(node.node_id,)),
        idempotency_key=f"{run.run_id}.{part}",
        correlation_id=run.correlation_id,
        trigger_source="agent_lifecycle",
        linked_allocation_id=node.allocation_id,
        linked_node_id=node.node_id,
    )
    operation, _ = place(draft, command, audited=False)
    return operation.operation_id


def _kept(draft: Draft, run: AgentRunRow) -> AgentRunRow:
    draft.update(run)
    return run


def cancel_open(draft: Draft, run: AgentRunRow) -> None:
    """Calls off what a run that is over still has under way. A change that has begun ends by its own trial."""
    for operation_id in (run.stage_operation_id, run.operation_id, run.verify_operation_id):
        operation = draft.get(OperationRow, operation_id) if operation_id else None
        if operation is None or operation.status in FINAL:
            continue
        begun = any(task.state == RUNNING for task in draft.tasks_of(operation_id))
        if operation_id == run.operation_id and begun:
            continue
        draft.update(replace(operation, cancel_requested_ms=operation.cancel_requested_ms or draft.now_ms))
        cancel_open_tasks(draft, draft.get(OperationRow, operation_id) or operation)
