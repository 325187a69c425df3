"""`artifact.pull_blob`: one blob over HTTPS to a path; it is there whole and right, or not at all (SK-02).

The work is `hostler.agent.fetch`; here it meets the task: policy, checkpoint, receipt.
"""

from functools import partial

from hostler.agent.fetch.blob import Owner, Wanted, pull
from hostler.agent.fetch.connection import target_of
from hostler.agent.fetch.present import look, set_mode
from hostler.agent.fetch.stream import Gauge
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.files import FileInfo
from hostler.agent.host.threads import start
from hostler.agent.steps.contract import (
    Change,
    FileState,
    Outcome,
    Plan,
    Probe,
    StepContext,
    StepView,
    Truth,
)
from hostler.base.errors import error
from hostler.catalog.params.artifact import PullBlob
from hostler.catalog.policy import allows_source


class PullBlobKind:
    name = "artifact.pull_blob"

    async def plan(self, view: StepView) -> Plan:
        """Asks nobody: the network is for apply. What a broken transfer left does not show, so that a
        task which resumes has the plan that was approved."""
        params: PullBlob = view.params
        shown = target_of(params.url).shown
        if not _allowed(view, params.url):
            raise error("source_denied", f"{shown} is not among the allowed sources")
        view.host.files.may_write(params.path)
        found = await _look(view)
        detail = f"sha256 {params.sha256}"
        if found.sha256 != params.sha256:
            action = "replace" if found.exists else "fetch"
            change = Change(
                action=action, target=params.path, detail=f"from {shown}, {detail}", bytes=params.size_bytes
            )
        elif found.mode != params.mode:
            change = Change(action="chmod", target=params.path, detail=f"mode {found.mode} to {params.mode}")
        else:
            change = Change(action="keep", target=params.path, detail=detail)
        return Plan((change,))

    async def apply(self, context: StepContext) -> Outcome:
        params: PullBlob = context.params
        with context.host.files.parent(params.path, make=True) as (directory, name):
            before = await _looked(context)
            if before.sha256 == params.sha256:
                changed = before.mode != params.mode
                if changed:
                    set_mode(directory, name, int(params.mode, 8))
                return _outcome(params, before.size_bytes, 0, before, changed=changed)
            pulled = await pull(_wanted(context, directory, name), _owner(context))
        return _outcome(params, pulled.size_bytes, pulled.bytes_transferred, before, changed=True)

    async def probe(self, view: StepView) -> Probe:
        """Never ambiguous: the digest tells."""
        params: PullBlob = view.params
        found = await _look(view)
        if found.sha256 != params.sha256 or found.mode != params.mode:
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(params, found.size_bytes, 0, None, changed=True))


KIND = PullBlobKind()


def _allowed(view: StepView, url: str) -> bool:
    return allows_source(view.policy, view.allowed_sources, url)


async def _look(view: StepView) -> FileInfo:
    params: PullBlob = view.params
    return await start(lambda: look(view.host.files, params.path, params.size_bytes), "fetch-look")


async def _looked(context: StepContext) -> FileInfo:
    """Under the step's deadline and cancellation: it may be a large file."""
    params: PullBlob = context.params
    files = context.host.files
    watch = Watch(context.deadline, context.cancelled, context.host.fetch, Gauge())
    work = start(lambda: look(files, params.path, params.size_bytes, lambda: watch.stopped), "fetch-look")
    return await watch.worker(work, None)


def _wanted(context: StepContext, directory: int, name: str) -> Wanted:
    params: PullBlob = context.params
    limits = [most for most in (context.policy.max_artifact_size_bytes, params.max_bytes) if most]
    return Wanted(
        url=params.url,
        sha256=params.sha256,
        directory=directory,
        name=name,
        mode=int(params.mode, 8),
        size=params.size_bytes,
        most=min(limits, default=0),
        retries=params.retries,
        allowed=partial(_allowed, context),
    )


def _owner(context: StepContext) -> Owner:
    return Owner(
        settings=context.host.fetch,
        clock=context.host.clock,
        deadline=context.deadline,
        cancelled=context.cancelled,
        progress=lambda done, total: context.progress(done, total, "bytes"),
        note=lambda text: context.log("agent", text),
        saved=context.checkpoint,
        save=context.save_checkpoint,
    )


def _outcome(params: PullBlob, size: int, transferred: int, before: FileInfo | None, *, changed: bool) -> Outcome:
    outputs = {
        "path": params.path,
        "sha256": params.sha256,
        "size_bytes": size,
        "bytes_transferred": transferred,
    }
    after = FileState(path=params.path, sha256=params.sha256, size_bytes=size, mode=params.mode)
    earlier = () if before is None else (_state(before),)
    return Outcome(outputs=outputs, changed=changed, files_before=earlier, files_after=(after,))


def _state(found: FileInfo) -> FileState:
    """The digest of another file is not computed for the record: it may be large."""
    return FileState(
        path=found.path,
        sha256=found.sha256,
        size_bytes=found.size_bytes,
        mode=found.mode,
        exists=found.exists,
    )
