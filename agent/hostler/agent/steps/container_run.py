"""`container.run`: one task of a job, from its image to its end (SK-24, RN, TE).

The step runs for as long as the container does, and the container outlives the step: an agent that stops, crashes or
loses its journal finds it again by its labels and goes on with it. What is left is removed once the end is durable
(`Workloads.ended`), so that no crash in between makes it run twice.
"""

from hostler.agent.containers.workload import Workloads
from hostler.agent.steps.container_image import reference_in
from hostler.agent.steps.container_notes import Noted, noted
from hostler.agent.steps.container_rules import PROCESS, binds_of, check_container
from hostler.agent.steps.container_task import ContainerTask
from hostler.agent.steps.contract import Change, FailedWith, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import digest_of
from hostler.base.errors import StepFailed, error
from hostler.catalog.params.container import ContainerRun
from hostler.wire.report import Artifact


class ContainerRunKind:
    name = "container.run"

    async def plan(self, view: StepView) -> Plan:
        """Asks neither the runtime nor a registry; which port or device it will be is for apply."""
        params: ContainerRun = view.params
        workloads = workloads_of(view)
        runtime = workloads.runtime(noted(view).runtime or params.runtime).name
        check_container(params, workloads.settings, runtime)
        binds = binds_of(view, workloads.kept_paths)
        changes = []
        if runtime != PROCESS:
            reference_in(view)
            changes.append(Change(action="pull", target=params.image))
        if params.bundle:
            changes.append(Change(action="fetch", target=f"bundle {params.bundle}", detail="at /app"))
        mounts = [f"{one.source} at {one.target}{'' if one.read_only else ' for writing'}" for one in binds]
        changes += [Change(action="mount", target=mount) for mount in mounts]
        if params.setup:
            changes.append(Change(action="run", target="setup", detail=_argv(params.setup)))
        changes.append(Change(action="run", target=f"{params.job} in {runtime}", detail=_detail(params)))
        return Plan(tuple(changes))

    async def apply(self, context: StepContext) -> Outcome:
        task = ContainerTask(context, workloads_of(context))
        try:
            return _outcome(context, await task.run())
        except StepFailed as err:
            if task.failed is None:
                raise
            raise FailedWith(err, _outcome(context, task.failed)) from err

    async def probe(self, view: StepView) -> Probe:
        """Done where the end is noted, which is after the last line was told; else apply takes up what is there."""
        notes = noted(view)
        if notes.ended is not None:
            return Probe(truth=Truth.DONE, outcome=_outcome(view, notes))
        return Probe(truth=Truth.NOT_DONE, alive=bool(notes.image))


KIND = ContainerRunKind()


def workloads_of(view: StepView) -> Workloads:
    """Raises `runtime_unavailable` where nobody can run containers, such as in a rehearsal."""
    if view.workloads is None:
        raise error("runtime_unavailable", "nothing here runs containers")
    return view.workloads


def _outcome(view: StepView, notes: Noted) -> Outcome:
    params: ContainerRun = view.params
    status = notes.ended
    assert status is not None
    outputs = {
        "exit_code": status.exit_code,
        "runtime": notes.runtime,
        "container": notes.main,
        "ports": notes.ports,
        "started_at_ms": status.started_at_ms,
        "finished_at_ms": status.finished_at_ms,
    }
    return Outcome(
        outputs=outputs,
        argv_digest=digest_of(list(params.command)),
        exit_status=status.exit_code,
        artifacts=_image(params),
    )


def _image(params: ContainerRun) -> tuple[Artifact, ...]:
    """What ran, for the receipt."""
    if not params.image:
        return ()
    sha256 = params.image.rpartition("@sha256:")[2]
    return (Artifact(name=params.image, kind="input", sha256=sha256, size_bytes=0, uri=f"oci://{params.image}"),)


def _detail(params: ContainerRun) -> str:
    """What it is given, and what it runs: without the environment, whose values are the tenant's own."""
    asked = params.resources
    said = [f"{asked.cpu_millis} millicores", f"{asked.memory_bytes} bytes", f"{asked.pids} processes", params.security]
    said += [f"{asked.device.count} {asked.device.kind}"] if asked.device else []
    said += [f"network {params.network}", f"ports {', '.join(params.ports) or 'none'}", _argv(params.command)]
    return "; ".join(said)


def _argv(argv: tuple[str, ...]) -> str:
    shown = " ".join(argv)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
