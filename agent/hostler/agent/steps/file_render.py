"""`file.render`: a file from a signed template, atomically, inside the allowed prefixes (SK-07)."""

import difflib
from dataclasses import dataclass

from hostler.agent.host.files import FileInfo
from hostler.agent.host.users import owner_ids
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
from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.file import Render

DIFF_BYTES = 256 * 1024  # of the old file; a longer one is named, not shown
DIFF_LINES = 2000


@dataclass(frozen=True)
class _Wanted:
    """The file as it should be."""

    content: bytes
    mode: int
    uid: int
    gid: int

    def stands(self, found: FileInfo) -> bool:
        return (
            found.exists
            and found.sha256 == sha256_hex(self.content)
            and int(found.mode, 8) == self.mode
            and (found.uid, found.gid) == (self.uid, self.gid)
        )


class RenderKind:
    name = "file.render"

    async def plan(self, view: StepView) -> Plan:
        return Plan((await view.host.blocking.run(lambda: _change(view)),))

    async def apply(self, context: StepContext) -> Outcome:
        if context.cancelled.is_set():
            raise error("canceled", f"{context.params.path} was not written")
        return await context.host.blocking.run(lambda: _apply(context))

    async def probe(self, view: StepView) -> Probe:
        """The file tells: a write that was cut off left the old one."""
        wanted, found = await view.host.blocking.run(lambda: _compare(view))
        if not wanted.stands(found):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(None, found, changed=True))


KIND = RenderKind()


def _compare(view: StepView) -> tuple[_Wanted, FileInfo]:
    from hostler.agent.steps.template import render

    params: Render = view.params
    view.host.files.may_write(params.path)
    uid, gid = owner_ids(params.owner, params.group)
    wanted = _Wanted(render(params.template, params.variables), int(params.mode, 8), uid, gid)
    found = view.host.files.info(params.path)
    return wanted, view.host.files.digest(params.path) if found.exists else found


def _apply(context: StepContext) -> Outcome:
    params: Render = context.params
    wanted, found = _compare(context)
    if wanted.stands(found):
        return _outcome(found, found, changed=False)
    if context.deadline.passed():
        raise error("timeout", f"no time was left to write {params.path}")
    written = context.host.files.write(
        params.path,
        wanted.content,
        mode=wanted.mode,
        uid=wanted.uid,
        gid=wanted.gid,
        make_parents=params.make_parents,
    )
    return _outcome(found, written, changed=True)


def _change(view: StepView) -> Change:
    params: Render = view.params
    wanted, found = _compare(view)
    if wanted.stands(found):
        return Change(action="keep", target=params.path)
    notes = [] if not found.exists else _attribute_changes(wanted, found)
    if found.sha256 != sha256_hex(wanted.content):
        notes.append(_diff(view, wanted.content))
    return Change(
        action="replace" if found.exists else "create",
        target=params.path,
        detail="\n".join(notes),
        bytes=len(wanted.content),
    )


def _attribute_changes(wanted: _Wanted, found: FileInfo) -> list[str]:
    notes = []
    if int(found.mode, 8) != wanted.mode:
        notes.append(f"mode {found.mode} -> {wanted.mode:04o}")
    if (found.uid, found.gid) != (wanted.uid, wanted.gid):
        notes.append(f"owner {found.uid}:{found.gid} -> {wanted.uid}:{wanted.gid}")
    return notes


def _diff(view: StepView, content: bytes) -> str:
    path = view.params.path
    try:
        old = view.host.files.read(path, DIFF_BYTES) if view.host.files.info(path).exists else b""
        before, after = old.decode().splitlines(), content.decode().splitlines()
    except (HostlerError, UnicodeDecodeError):
        return "the present file is too long or no text: no diff"
    lines = list(difflib.unified_diff(before, after, f"{path} (now)", path, lineterm=""))
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], f"... {len(lines) - DIFF_LINES} more lines"]
    return "\n".join(lines)


def _outcome(before: FileInfo | None, after: FileInfo, *, changed: bool) -> Outcome:
    return Outcome(
        outputs={"path": after.path, "sha256": after.sha256, "size_bytes": after.size_bytes},
        changed=changed,
        files_before=(_state(before),) if before else (),
        files_after=(_state(after),),
    )


def _state(info: FileInfo) -> FileState:
    return FileState(
        path=info.path,
        sha256=info.sha256,
        size_bytes=info.size_bytes,
        mode=info.mode,
        exists=info.exists,
    )
