"""`python.env.create`: an environment from a lock with hashes, whole or not at all (SK-06, OD-28).

    path/<digest>   one environment each; its marker is written last, so one without it is half-built
    path/current    a link to the one in use, replaced at once

The digest stands for the lock, the interpreter and the flavour: the same lock twice is the same environment.
"""

import platform
from dataclasses import dataclass

import msgspec

from hostler.agent.host.pythons import SCRATCH, Making
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import canonical_json, digest_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.lock import conda_lock, pip_lock
from hostler.catalog.params.python import EnvCreate

MARKER, LOCK, CURRENT = "hostler-env.json", "hostler.lock", "current"
MARKER_BYTES = 64 * 1024


@dataclass(frozen=True)
class _Wanted:
    """`digest` in full; the folder is named after its first 16 digits."""

    digest: str
    lines: tuple[str, ...]
    conda: str = ""

    @property
    def name(self) -> str:
        return self.digest[:16]


class EnvCreateKind:
    name = "python.env.create"

    async def plan(self, view: StepView) -> Plan:
        params: EnvCreate = view.params
        wanted = await view.host.blocking.run(lambda: _wanted(view))
        current = await _current(view)
        if current == wanted.name and await view.host.blocking.run(lambda: _is_whole(view, wanted.name)):
            return Plan((Change(action="keep", target=params.path, detail=f"environment {wanted.digest}"),))
        detail = f"{len(wanted.lines)} packages for {params.python}, environment {wanted.digest}"
        fetches = tuple(Change(action="fetch", target=index, detail="packages of the lock") for index in params.indexes)
        made = Change(action="replace" if current else "create", target=params.path, detail=detail)
        return Plan((*fetches, made))

    async def apply(self, context: StepContext) -> Outcome:
        params: EnvCreate = context.params
        if context.cancelled.is_set():
            raise error("canceled", f"{params.path} was left as it is")
        wanted = await context.host.blocking.run(lambda: _wanted(context))
        with context.host.trees.held(params.path):
            for name in await context.host.blocking.run(lambda: _clear_half_built(context)):
                context.log("agent", f"a half-built environment {name} is removed")
            changed = await _current(context) != wanted.name
            if not await context.host.blocking.run(lambda: _is_whole(context, wanted.name)):
                await _build(context, wanted)
                changed = True
            if changed:
                await context.host.blocking.run(lambda: _switch(context, wanted))
        return _outcome(params, wanted, changed=changed)

    async def probe(self, view: StepView) -> Probe:
        wanted = await view.host.blocking.run(lambda: _wanted(view))
        current = await _current(view)
        if current != wanted.name or not await view.host.blocking.run(lambda: _is_whole(view, wanted.name)):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(view.params, wanted, changed=True))


KIND = EnvCreateKind()


async def _current(view: StepView) -> str:
    """The folder in use; "" for none."""
    link = f"{view.params.path}/{CURRENT}"
    return await view.host.blocking.run(lambda: view.host.trees.target(link))


def _wanted(view: StepView) -> _Wanted:
    """Raises `lock_refused`, `source_denied`, `incompatible`, `path_denied`, `binding_error`."""
    params: EnvCreate = view.params
    view.host.files.may_write(f"{params.path}/{CURRENT}")
    if params.flavour == "conda":
        lines, urls = conda_lock(params.lock)
        conda = view.host.pythons.conda()
        interpreter = view.host.pythons.identity(conda)
    else:
        lines, urls, conda = pip_lock(params.lock), params.indexes, ""
        if not urls:
            raise error("binding_error", f"no index is declared to make {params.path} from")
        interpreter = view.host.pythons.identity(params.python)
    for url in urls:
        if not view.may_fetch(url):
            raise error("source_denied", f"index {url} is outside what policy, definition and this node allow")
    facts = [params.flavour, lines, interpreter, "" if conda else params.python, platform.machine()]
    return _Wanted(digest_of(facts), lines, conda)


def _is_whole(view: StepView, name: str) -> bool:
    try:
        marker = view.host.files.read(f"{view.params.path}/{name}/{MARKER}", MARKER_BYTES)
        return bool(msgspec.json.decode(marker)["env_digest"][:16] == name)
    except (HostlerError, msgspec.DecodeError, KeyError, TypeError):
        return False


def _clear_half_built(context: StepContext) -> list[str]:
    """Removes what a crash left; the names."""
    path, trees = context.params.path, context.host.trees
    found = [name for name in trees.names(path) if name != CURRENT and len(name) == 16]
    half_built = [name for name in found if not _is_whole(context, name)]
    for name in half_built:
        trees.remove(f"{path}/{name}")
    return half_built


async def _build(context: StepContext, wanted: _Wanted) -> None:
    """The folder under its own name: scripts in it know where they lie. What fails leaves nothing."""
    params, host = context.params, context.host
    home = f"{params.path}/{wanted.name}"
    try:
        await context.host.blocking.run(lambda: _prepare(context, home, wanted))
        making = Making(host.trees.real(home), host.trees.real(f"{home}/{LOCK}"), context.deadline, context.cancelled)
        context.confined({"no_new_privileges": True, "seccomp": True, "writes": [home], "network": True})
        if wanted.conda:
            await host.pythons.make_conda(making, wanted.conda)
        else:
            await host.pythons.make_venv(making, params.python, params.indexes)
        await context.host.blocking.run(lambda: _finish(context, home, wanted))
    except BaseException:
        await host.blocking.run(lambda: host.trees.remove(home))
        raise


def _prepare(context: StepContext, home: str, wanted: _Wanted) -> None:
    context.host.trees.make(home)
    context.host.trees.make(f"{home}/{SCRATCH}")
    head = "@EXPLICIT\n" if wanted.conda else ""
    context.host.files.write(f"{home}/{LOCK}", (head + "\n".join(wanted.lines) + "\n").encode())


def _finish(context: StepContext, home: str, wanted: _Wanted) -> None:
    """The marker only when everything else is on the disk."""
    context.host.trees.remove(f"{home}/{SCRATCH}")
    context.host.trees.settle()
    facts = {"env_digest": wanted.digest, "python": context.params.python, "packages": len(wanted.lines)}
    context.host.files.write(f"{home}/{MARKER}", canonical_json(facts))


def _switch(context: StepContext, wanted: _Wanted) -> None:
    """Points to the new one; of the old ones the last in use stays."""
    path, trees = context.params.path, context.host.trees
    before = trees.target(f"{path}/{CURRENT}")
    trees.point(f"{path}/{CURRENT}", wanted.name)
    stays = {CURRENT, wanted.name, before}
    for name in trees.names(path):
        if name not in stays and len(name) == 16 and _is_whole(context, name):
            trees.remove(f"{path}/{name}")


def _outcome(params: EnvCreate, wanted: _Wanted, *, changed: bool) -> Outcome:
    python = f"{params.path}/{CURRENT}/bin/python"
    outputs = {"path": f"{params.path}/{CURRENT}", "python": python, "env_digest": wanted.digest}
    return Outcome(outputs=outputs, changed=changed)
