"""One case a step kind for the crash matrix: a definition, its inputs, and how to see the effect.

A kind without a case fails the matrix: it is covered the day it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

BLOB = bytes(range(256)) * 4096  # 1 MiB


@dataclass(frozen=True)
class Case:
    """`params` may name `${inputs.…}`; `effect` says whether the step's effect is there, once and whole."""

    params: dict[str, Any]
    inputs: Callable[["Place"], dict[str, Any]]
    effect: Callable[["Place"], bool]
    input_names: tuple[str, ...] = field(default=("path",))

    def definition(self, kind: str) -> dict[str, Any]:
        properties = {name: {"type": "string"} for name in self.input_names}
        return {
            "type": f"matrix.{kind}",
            "version": "v1",
            "inputs": {"type": "object", "additionalProperties": False, "properties": properties},
            "capabilities": {"os.kernel": "linux"},
            "steps": [{"id": "one", "kind": kind, "params": self.params, "timeout_seconds": 30}],
        }


@dataclass(frozen=True)
class Place:
    """Where one run of a case happens. `name` is new for every run."""

    root: Path  # the agent's root
    open_directory: Path  # outside it, for commands, which know no root
    name: str
    url: str

    def file(self) -> Path:
        return self.root / "srv" / self.name


def minters(home: Path) -> str:
    """One that hands out a token from a file."""
    token = home / "hub.token"
    token.touch(0o600)
    token.write_text("hf_matrix_0123456789")
    scope = '[[minters.scopes]]\norg = "*"\nproject = "*"\nsources = ["https://hub.test/"]\n'
    return f'[[minters]]\nbackend = "read_token"\nname = "hub"\nsecret_file = "{token}"\n{scope}'


# fails when it runs a second time: mkdir without -p is its own witness
MAKE_DIRECTORY = {
    "id": "matrix_mkdir",
    "command": "/usr/bin/mkdir",
    "args": ["--", "${path}"],
    "arg_schema": {"path": {"type": "string", "pattern": "^/[A-Za-z0-9_/.-]+$"}},
    "timeout_seconds": 10,
}

CASES: dict[str, Case] = {
    "artifact.pull_blob": Case(
        params={"url": "${inputs.url}", "sha256": sha256(BLOB).hexdigest(), "path": "${inputs.path}"},
        inputs=lambda place: {"path": f"/srv/{place.name}", "url": place.url},
        effect=lambda place: place.file().read_bytes() == BLOB,
        input_names=("path", "url"),
    ),
    "artifact.verify": Case(
        params={"path": "/srv/present", "sha256": sha256(BLOB).hexdigest()},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "credential.mint": Case(
        params={
            "credential_type": "hf_token",
            "intent": {"endpoint": "https://hub.test", "repository": "team/model"},
            "for_steps": ["later"],
        },
        inputs=lambda place: {},
        effect=lambda place: True,  # it ends with the agent that asked
    ),
    "file.render": Case(
        params={"path": "${inputs.path}", "template": "rendered {{ x }}\n", "variables": {"x": "once"}},
        inputs=lambda place: {"path": f"/srv/{place.name}"},
        effect=lambda place: place.file().read_text() == "rendered once\n",
    ),
    "command.exec_allowlisted": Case(
        params={"profile": "matrix_mkdir", "args": {"path": "${inputs.path}"}},
        inputs=lambda place: {"path": str(place.open_directory / place.name)},
        effect=lambda place: (place.open_directory / place.name).is_dir(),
    ),
    "health.check": Case(
        params={"checks": [{"type": "file", "path": "/srv/present", "min_bytes": 1}]},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
}
