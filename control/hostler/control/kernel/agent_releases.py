"""Releases there are, and whether a node may be brought to one (LC-08, LC-12, U3)."""

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel import changes, events
from hostler.control.kernel.agent_commands import PublishReleases, ReleaseFacts, StorePackage
from hostler.control.kernel.agent_rows import NodeAgentRow, ReleaseRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import NodeRow
from hostler.pki import dsse
from hostler.pki.agent_report import AgentReport, Slot
from hostler.pki.releases import Release, may_install

replace = msgspec.structs.replace
_GOOD_SLOTS = ("previous", "packaged", "kept")  # they have stood their trial on this node, or came with it


def publish(draft: Draft, command: PublishReleases) -> Decision:
    """→ versions that are new. What a published version is never changes; what its metadata says of it may."""
    new: dict[str, None] = {}
    for facts in command.releases:
        known = draft.get(ReleaseRow, (facts.version, facts.suite))
        row = _release(draft, command, facts, known)
        if known is None:
            draft.insert(row)
            new[facts.version] = None
        elif known != row:
            draft.update(row)
    there = {(facts.version, facts.suite) for facts in command.releases}
    for row in draft.current(draft.view.all_releases()):
        if (row.version, row.suite) not in there:
            draft.update(replace(row, channels="[]"))  # withdrawn: nobody is brought to it any more
    for version in new:
        suites = sorted(facts.suite for facts in command.releases if facts.version == version)
        said = events.admin_event(
            "agent.release_published",
            f"agent-releases/{version}",
            draft.now_ms,
            actor=command.actor,
            action="agent.release.publish",
            change=changes.made(version=version, suites=suites),
            version=version,
        )
        draft.events.append(replace(said, correlation_id=command.correlation_id))
    return draft.decision(tuple(new))


def _release(draft: Draft, command: PublishReleases, facts: ReleaseFacts, known: ReleaseRow | None) -> ReleaseRow:
    if known is not None and known.sha256 != facts.sha256:
        raise error(
            "definition_immutable",
            f"release {facts.version} for {facts.suite} was published with another package",
            hint="give the package a version of its own",
        )
    return ReleaseRow(
        version=facts.version,
        suite=facts.suite,
        commit_id=facts.commit,
        file=known.file if known else facts.file,
        sha256=facts.sha256,
        size_bytes=facts.size_bytes,
        channels=events.json_text(facts.channels),
        replaces=events.json_text(facts.replaces),
        notes=facts.notes,
        published_at_ms=known.published_at_ms if known else draft.now_ms,
        published_by=known.published_by if known else command.actor.name,
    )


def store(draft: Draft, command: StorePackage) -> Decision:
    """The bytes are on disk and have the signed digest; the edge has seen to that."""
    said = events.admin_event(
        "agent.package_stored",
        f"agent-packages/{command.file}",
        draft.now_ms,
        actor=command.actor,
        action="agent.package.store",
        change=changes.made(file=command.file, sha256=command.sha256, size_bytes=command.size_bytes),
    )
    draft.events.append(replace(said, correlation_id=command.correlation_id))
    return draft.decision()


def offered(row: ReleaseRow) -> list[str]:
    """The channels that a release is signed for; none where it was withdrawn."""
    return msgspec.json.decode(row.channels, type=list[str])


def release_for(draft: Draft, version: str, suite: str) -> ReleaseRow:
    """The package of a version for a node. One that has told no Debian release gets the only one there is.

    Raises:
        HostlerError: `release_missing`.
    """
    rows = [row for row in draft.current(draft.view.releases_of(version)) if offered(row)]
    fitting = [row for row in rows if row.suite == suite] if suite else rows
    if len(fitting) == 1:
        return fitting[0]
    if not rows:
        raise error("release_missing", f"no release {version} is published", pointer="/target_version")
    known = ", ".join(sorted(row.suite for row in rows))
    raise error(
        "release_missing",
        f"release {version} is published for {known}; the node's is {suite or 'not known'}",
        pointer="/target_version",
    )


def is_return(draft: Draft, agent: NodeAgentRow, node: NodeRow, version: str) -> bool:
    """Whether the node gets to `version` by going back to what lies there already: no package may bring it down.

    Raises:
        HostlerError: `release_missing`; `downgrade_denied` where it lies there neither (U3).
    """
    try:
        release = release_for(draft, version, agent.suite)
        _refuse_downgrade(release, node)
    except HostlerError:
        if version != node.agent_version and _lies_there(agent, version):
            return True
        raise
    return False


def _refuse_downgrade(release: ReleaseRow, node: NodeRow) -> None:
    """A version that is none (a development build) is the node's to judge."""
    signed = Release(
        version=release.version,
        commit=release.commit_id,
        suite=release.suite,
        file=release.file,
        size=release.size_bytes,
        sha256=release.sha256,
        channels=tuple(offered(release)),
        replaces=tuple(msgspec.json.decode(release.replaces, type=list[str])),
    )
    try:
        may_install(signed, node.agent_version)
    except HostlerError as err:
        if err.code == "downgrade_denied":
            raise


def _lies_there(agent: NodeAgentRow, version: str) -> bool:
    return any(slot.version == version and slot.state in _GOOD_SLOTS for slot in slots_of(agent))


def slots_of(agent: NodeAgentRow) -> tuple[Slot, ...]:
    """The versions that lie on the node, by its last report, which was verified when it came."""
    return report_of(agent).slots if agent.report else ()


def report_of(agent: NodeAgentRow) -> AgentReport:
    return msgspec.json.decode(dsse.from_json(agent.report).payload, type=AgentReport)
