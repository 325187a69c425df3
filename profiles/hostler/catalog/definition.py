"""Operation definitions: what can be asked, as `type@version` (seed 004 §4.1).

A definition is authored as YAML, travels and is digested as canonical JSON, and is immutable once
published. Nodes only ever see the canonical form, through the signed catalog.
"""

from typing import Any, Literal

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.strict import convert

BackendType = Literal["node_agent", "k8s_adapter", "slurm_adapter", "ray_adapter"]


_LATER = frozenset({"auto_executed_paths", "allowed_packages", "allowed_units", "require_plan_approval"})


class StepTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step. `params` may hold bindings: a string that is exactly `${inputs.x}` or
    `${steps.<id>.<output>}` stands for that whole value.

    Attributes:
        artifacts: outputs that are kept with the operation as artifacts, by name, each with its media type (PF-07).
    """

    id: str
    kind: str
    params: dict[str, Any] = {}
    timeout_seconds: int = 3600
    reusable: bool = True
    description: str = ""
    artifacts: dict[str, str] = {}


class ArtifactConstraints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where artifacts may come from: URL prefixes; `None` leaves it to policy alone."""

    allowed_sources: tuple[str, ...] | None = None
    require_digest: bool = True
    require_signature: bool = False


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The document. `inputs` is a JSON Schema (2020-12) of type object.

    Attributes:
        auto_executed_paths: files that its steps may write although they run by themselves, such as a unit or
            a static pod; whole paths, one by one (J2).
        allowed_packages: names of the OS packages that its steps may install, dependencies included (SK-05).
        allowed_units: full names of the systemd units that its steps may control (SK-08).
        require_plan_approval: nodes run it only with the digest of a plan that somebody has approved.
    """

    type: str
    version: str
    backend_type: BackendType = "node_agent"
    description: str = ""
    inputs: dict[str, Any]
    steps: tuple[StepTemplate, ...]
    artifacts: ArtifactConstraints = ArtifactConstraints()
    capabilities: dict[str, Any]
    auto_executed_paths: tuple[str, ...] = ()
    allowed_packages: tuple[str, ...] = ()
    allowed_units: tuple[str, ...] = ()
    destructive: bool = False
    require_plan_approval: bool = False
    timeout_seconds: int = 7200

    @property
    def ref(self) -> str:
        """`type@version`."""
        return f"{self.type}@{self.version}"

    def canonical(self) -> bytes:
        """Fields that came later are left out while they say nothing: signed digests stay what they were."""
        built = msgspec.to_builtins(self)
        for step in built["steps"]:
            if not step["artifacts"]:
                del step["artifacts"]
        return canonical_json({name: value for name, value in built.items() if value or name not in _LATER})

    def digest(self) -> str:
        return sha256_hex(self.canonical())


def definition_from(value: Any, what: str = "definition") -> Definition:
    """Raises `invalid_definition` with the path of the offending value."""
    return convert(value, Definition, code="invalid_definition", what=what)
