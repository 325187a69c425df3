"""What a machine provider is told, and what it makes of it (LC-07)."""

from typing import Any, Protocol

import msgspec


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """All that a bare host needs to become the node again.

    Attributes:
        agent_toml, trust: contents of /etc/hostler/agent.toml and trust.json.
        token: one use, for this node alone; never stored, never logged.
        url, sha256, size_bytes, file: of the exact package.
        ca: the authority that `url` has its certificate from, in PEM; "" for one that the host knows.
        suite: the Debian release that it is made for.
    """

    run_id: str
    node_name: str
    agent_toml: str
    trust: str
    token: str
    url: str
    sha256: str
    size_bytes: int
    file: str
    suite: str
    ca: str = ""

    def __repr__(self) -> str:
        return f"Host(run_id={self.run_id!r}, node_name={self.node_name!r}, ...)"  # never the token


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Handed out once, with a token inside. `media_type` says what `content` is; JSON stands as such."""

    provider: str
    media_type: str
    content: Any

    def __repr__(self) -> str:
        return f"Document(provider={self.provider!r}, ...)"


class Provider(Protocol):
    """One way to have a host installed anew. Pure: whoever asked for it hands the document on."""

    name: str

    def document(self, host: Host) -> Document: ...
