"""`artifact.pull_oci`: what a registry holds, by digest, into a directory or the image store (SK-01, AR-02).

The registry is asked with this task's own credential even when everything is here already (A7). Nothing stands at the
final place before all of it is verified; a directory takes its name in one step.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from hostler.agent.fetch.stream import Gauge
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.threads import start
from hostler.agent.oci import bundle
from hostler.agent.oci.collect import Bounds, Found, collect, find, refuse_excess
from hostler.agent.oci.intake import Intake
from hostler.agent.oci.layers import unpack_all
from hostler.agent.oci.manifest import own_platform
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.room import TREE, Room, may_replace, workroom
from hostler.agent.oci.stores import store_of
from hostler.agent.oci.tree import rows_of, tree_digest
from hostler.agent.oci.unpack import Budget
from hostler.agent.steps.artifact_access import access_of, allowed, most_bytes, owner_of, refuse_source
from hostler.agent.steps.contract import Change, FileState, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import canonical_json
from hostler.base.errors import error
from hostler.catalog.oci import Reference, reference_of
from hostler.catalog.params.artifact import PullOci
from hostler.wire.report import Artifact

T = TypeVar("T")
STORES = ("containerd", "docker")


class PullOciKind:
    name = "artifact.pull_oci"

    async def plan(self, view: StepView) -> Plan:
        """Asks nobody: the network is for apply."""
        params: PullOci = view.params
        reference = _reference(view)
        if params.place in STORES:
            if params.path:
                raise error("path_denied", f"an image for {params.place} has no path")
            target = f"{params.place} {params.namespace}" if params.place == "containerd" else params.place
        else:
            view.host.files.may_write(params.path)
            target = params.path
        detail = f"{params.place} of {reference.at(reference.digest)}"
        return Plan((Change(action="pull", target=target, detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        params: PullOci = context.params
        registry = Registry(_reference(context), access_of(context, params.credential), owner_of(context))
        found = await find(registry, params.platform or own_platform())
        refuse_excess(found, _bounds(context))
        if params.place in STORES:
            return await _into_store(context, registry, found)
        with context.host.files.parent(params.path, make=True) as (directory, name):
            may_replace(directory, name, params.path)
            before = await _blocking(context, lambda stopped: _standing(directory, name, stopped))
            files = _files(params, found)
            if files is not None and before == tree_digest(bundle.rows(*files)):
                return _outcome(context, found, 0, changed=False)
            with workroom(directory, name, found.descriptor.digest) as room:
                transferred = await _gather(context, registry, found, room)
                tree = await _blocking(context, lambda stopped: _build(context, found, room, stopped))
                outcome = _outcome(context, found, transferred, changed=before != tree)
                if outcome.changed:
                    await context.save_checkpoint({"tree": tree, "outputs": outcome.outputs})
                    may_replace(directory, name, params.path)
                    await _blocking(context, lambda _: room.place(name))
                await _blocking(context, lambda _: room.discard())
        return outcome

    async def probe(self, view: StepView) -> Probe:
        """Never ambiguous: what stands there has the digest that was noted right before the rename, or not."""
        params: PullOci = view.params
        noted, outputs = view.checkpoint.get("tree"), view.checkpoint.get("outputs")
        if not isinstance(noted, str) or not isinstance(outputs, dict) or params.place in STORES:
            return Probe(truth=Truth.NOT_DONE)
        try:
            with view.host.files.parent(params.path) as (directory, name):
                found = await start(lambda: _standing(directory, name, lambda: False), "oci-look")
        except FileNotFoundError:
            found = ""
        if found != noted:
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_with_files(params, outputs, changed=True))


KIND = PullOciKind()


def _reference(view: StepView) -> Reference:
    """Raises `digest_required`, `source_denied`."""
    reference = reference_of(view.params.reference)
    refuse_source(view, reference.source)
    return reference


def _bounds(view: StepView) -> Bounds:
    params: PullOci = view.params
    return Bounds(
        most=most_bytes(view, params.max_bytes),
        most_per_s=params.max_bytes_per_second,
        retries=params.retries,
        reserve=view.host.fetch.disk_reserve_bytes,
    )


def _files(params: PullOci, found: Found) -> tuple[bundle.Written, bundle.Linked] | None:
    """What the manifest alone says of the tree; None where the layers have to be opened first."""
    if params.place == "unpacked":
        return None
    return bundle.bundle_files(found) if params.place == "files" else bundle.layout_files(found)


def _standing(directory: int, name: str, stopped: Callable[[], bool]) -> str:
    """Digest of the tree that stands there; "" for none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return ""
    try:
        return tree_digest(rows_of(fd, stopped))
    finally:
        os.close(fd)


async def _gather(context: StepContext, registry: Registry, found: Found, room: Room) -> int:
    return await collect(registry, found, room, owner_of(context), _bounds(context), lambda url: allowed(context, url))


def _build(context: StepContext, found: Found, room: Room, stopped: Callable[[], bool]) -> str:
    """The tree in the room, with our note in it; its digest."""
    params: PullOci = context.params
    files = _files(params, found)
    if files is None:

        def check() -> None:
            if stopped():
                raise error("canceled", "unpacking was stopped")
            room.free(context.host.fetch.disk_reserve_bytes)

        unpack_all(room, found, Budget(params.max_unpacked_bytes, params.max_entries, check))
    else:
        bundle.build(room, *files)
    with room.folder(TREE) as tree:
        digest = tree_digest(rows_of(tree, stopped))
    bundle.mark(room, canonical_json({"reference": params.reference, "place": params.place, "tree": digest}))
    return digest


async def _into_store(context: StepContext, registry: Registry, found: Found) -> Outcome:
    params: PullOci = context.params
    store = store_of(params.place, context.host, params.namespace)
    intake = Intake(store, context.host.spool, owner_of(context), _bounds(context), lambda url: allowed(context, url))
    loaded = await intake.bring(registry, found)
    return _outcome(context, found, loaded.transferred, changed=loaded.changed, image=loaded.image)


async def _blocking(context: StepContext, work: Callable[[Callable[[], bool]], T]) -> T:
    """In a thread, under the step's deadline and cancellation."""
    watch = Watch(context.deadline, context.cancelled, context.host.fetch, Gauge())
    return await watch.worker(start(lambda: work(lambda: watch.stopped), "oci"), None)


def _outcome(context: StepContext, found: Found, transferred: int, *, changed: bool, image: str = "") -> Outcome:
    params: PullOci = context.params
    outputs = {
        "path": params.path,
        "reference": params.reference,
        "digest": found.descriptor.digest,
        "media_type": found.manifest.artifact_type or found.descriptor.media_type,
        "size_bytes": found.size,
        "bytes_transferred": transferred,
        "image": image,
    }
    return _with_files(params, outputs, changed=changed)


def _with_files(params: PullOci, outputs: dict[str, Any], *, changed: bool) -> Outcome:
    where, sha256 = params.path or outputs["image"], outputs["digest"].removeprefix("sha256:")
    after = FileState(path=where, sha256=sha256, size_bytes=outputs["size_bytes"])
    taken = Artifact(
        name=where,
        kind="input",
        sha256=sha256,
        size_bytes=outputs["size_bytes"],
        media_type=outputs["media_type"],
        uri=f"oci://{params.reference}",
    )
    return Outcome(outputs=outputs, changed=changed, files_after=(after,), artifacts=(taken,))
