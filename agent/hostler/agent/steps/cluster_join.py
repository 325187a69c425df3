"""`cluster.join`: the node becomes a member of a cluster, by the adapter of its backend (SK-13).

    elsewhere? ─▶ obtain ─▶ files, the membership last ─▶ units ─▶ the cluster knows the node

A node of another cluster is refused unless the signed step says `replace`. Joining again changes nothing.
"""

import asyncio
from typing import Any

from hostler.agent.clusters import files
from hostler.agent.clusters.contract import Adapter, Joining, Seen, Site, Wanted
from hostler.agent.clusters.table import adapter_of
from hostler.agent.host.files import FileInfo
from hostler.agent.secrets.material import material
from hostler.agent.steps.cluster_site import asking_site, site_of, until_cancelled, wait_for
from hostler.agent.steps.contract import Change, FileState, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.cluster import Join

POLL_SECONDS = 1.0
_NOT_YET = Seen(False, False, "")


class ClusterJoinKind:
    name = "cluster.join"

    async def plan(self, view: StepView) -> Plan:
        return Plan(await asyncio.to_thread(_changes, view))

    async def apply(self, context: StepContext) -> Outcome:
        params: Join = context.params
        adapter, site = adapter_of(params.cluster), asking_site(context)
        other = await asyncio.to_thread(_refuse, adapter, site, params)
        if context.cancelled.is_set():
            raise error("canceled", "the node was not joined")
        written = _Written(adapter, site)
        await until_cancelled(context, _files(adapter, site, context, written, fresh=bool(other)))
        await until_cancelled(context, _units(context, changed=bool(written.before)))
        seen = await wait_for(
            adapter,
            site,
            context,
            until=context.deadline,
            interval_s=POLL_SECONDS,
            enough=lambda seen: seen.joined,
        )
        if not seen.joined:
            raise error("timeout", f"the {adapter.name(params.cluster)} does not know the node yet: {seen.condition}")
        return written.outcome(seen.condition)

    async def probe(self, view: StepView) -> Probe:
        """Files and units tell: whatever is last of the files makes the node a member."""
        params: Join = view.params
        adapter, site = adapter_of(params.cluster), site_of(view)
        if not await asyncio.to_thread(files.all_stand, site, adapter):
            return Probe(truth=Truth.NOT_DONE)
        for unit in params.units:
            if not await _active(view, unit):
                return Probe(truth=Truth.NOT_DONE, note=f"{unit} is not active")
        outcome = _Written(adapter, site).outcome("joined before the restart")
        return Probe(truth=Truth.DONE, outcome=outcome)


KIND = ClusterJoinKind()


class _Written:
    """What the join has written so far, for the receipt. A secret's digest is not told."""

    def __init__(self, adapter: Adapter, site: Site) -> None:
        self._adapter, self._site = adapter, site
        self._open = {wanted.role for wanted in adapter.wanted(site) if wanted.content is None} - {"ca", "certificate"}
        self.before: list[FileState] = []
        self.after: list[FileState] = []

    async def put(self, wanted: Wanted) -> None:
        written = await asyncio.to_thread(files.put, self._site, wanted)
        if written is not None:
            told = wanted.role not in self._open
            self.before.append(_state(written[0], told=told))
            self.after.append(_state(written[1], told=told))

    def outcome(self, condition: str) -> Outcome:
        outputs: dict[str, Any] = {
            "cluster": self._adapter.name(self._site.cluster),
            "node": self._site.node,
            "condition": condition,
        }
        return Outcome(
            outputs=outputs,
            changed=bool(self.after),
            files_before=tuple(self.before),
            files_after=tuple(self.after),
        )


def _state(info: FileInfo, *, told: bool) -> FileState:
    return FileState(
        path=info.path,
        sha256=info.sha256 if told else "",
        size_bytes=info.size_bytes if told else 0,
        mode=info.mode,
        exists=info.exists,
    )


def _refuse(adapter: Adapter, site: Site, params: Join) -> str:
    """The cluster that the node leaves, "" for none. Raises `joined_elsewhere`, `path_denied` and what `check` does."""
    adapter.check(site)
    for path in site.files.values():
        site.host.files.may_write(path)
    other = adapter.elsewhere(site)
    if other and not params.replace:
        raise error("joined_elsewhere", f"node {params.node} belongs to the {other}")
    return other


async def _files(adapter: Adapter, site: Site, context: StepContext, written: _Written, *, fresh: bool) -> Seen:
    params: Join = context.params
    joining = Joining(written.put, context.deadline, fresh, lambda line: context.log("agent", line))
    open_roles = [wanted for wanted in adapter.wanted(site) if wanted.content is None]
    got: dict[str, bytes] = {}
    if params.credential:
        got = await adapter.obtain(site, joining, lambda type_: material(context.secrets, params.credential, type_))
    for wanted in open_roles:
        if wanted.role not in got and not await asyncio.to_thread(files.stands, site, wanted):
            path = site.files[wanted.role]
            raise error("binding_error", f"{path} is not there as it must be, and no credential fills it")
    for wanted in adapter.wanted(site):
        filled = wanted._replace(content=got.get(wanted.role, wanted.content))
        if filled.content is not None:
            await written.put(filled)
    return _NOT_YET


async def _units(context: StepContext, *, changed: bool) -> Seen:
    """Restarts all of them in order when a file has changed, and those that are down in any case."""
    params: Join = context.params
    for unit in params.units:
        if not changed and await _active(context, unit):
            continue
        try:
            async with asyncio.timeout(context.deadline.remaining()):
                ended = await context.host.systemd.run_job(unit, "restart")
        except TimeoutError as err:
            raise error("timeout", f"{unit} was not started in time") from err
        state = await context.host.systemd.unit_state(unit)
        if ended != "done" or state.active != "active":
            raise error("join_refused", f"{unit} did not start ({ended}): it is {state.active} ({state.sub})")
        context.log("agent", f"{unit} is active")
    return _NOT_YET


async def _active(view: StepView, unit: str) -> bool:
    try:
        return (await view.host.systemd.unit_state(unit)).active == "active"
    except HostlerError:
        return False


def _changes(view: StepView) -> tuple[Change, ...]:
    params: Join = view.params
    adapter, site = adapter_of(params.cluster), site_of(view)
    other = _refuse(adapter, site, params)
    changes = [Change(action="leave", target=other)] if other else []
    keep = not other and adapter.holds(site)
    for wanted in adapter.wanted(site):
        path = site.files[wanted.role]
        stands = (keep or wanted.content is not None) and _stands(site, wanted)
        detail = "" if wanted.content is not None or stands else f"the {wanted.role}, mode {wanted.mode:04o}"
        size = len(wanted.content) if wanted.content is not None and not stands else 0
        action = "keep" if stands else "replace" if site.host.files.info(path).exists else "create"
        changes.append(Change(action=action, target=path, detail=detail, bytes=size))
    if any(change.action != "keep" for change in changes):
        changes += [Change(action="restart", target=unit) for unit in params.units]
    changes.append(Change(action="join", target=adapter.name(params.cluster), detail=f"as node {params.node}"))
    return tuple(changes)


def _stands(site: Site, wanted: Wanted) -> bool:
    try:
        return files.stands(site, wanted)
    except HostlerError as err:
        if err.code != "incompatible":  # the owner comes with a package that an earlier step installs
            raise
        return False
