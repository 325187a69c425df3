"""Keys by which tasks know each other: one of a project, one of each namespace. Derived from one file, stored nowhere.

What the control plane is asked for is who may have them: any task of a project that runs now has the project's, and
that of its own namespace alone (OD-32).
"""

from pathlib import Path

from hostler.base.digest import canonical_json
from hostler.control.key_file import KeyFile

_PURPOSE = b"hostler namespace key v1 "


class NamespaceKeys:
    """`namespace.key` of the keys directory, 32 random bytes; made on first use where it is absent."""

    def __init__(self, path: Path) -> None:
        self._file = KeyFile(path, "namespace_key_unavailable")

    def project(self, org_id: str, project_id: str) -> bytes:
        return self._derived("project", org_id, project_id)

    def namespace(self, org_id: str, project_id: str, namespace: str) -> bytes:
        return self._derived("namespace", org_id, project_id, namespace)

    def _derived(self, *words: str) -> bytes:
        """Raises `namespace_key_unavailable`, `invalid_config`."""
        return self._file.derived(_PURPOSE + canonical_json(list(words)))
