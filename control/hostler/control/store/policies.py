"""Policy overlays, for readers."""

import sqlite3

from hostler.control.kernel.policy_rows import PolicyRow
from hostler.control.store.tables import STATEMENTS

_SQL = f"""
    SELECT {STATEMENTS[PolicyRow].columns} FROM operation_policy_overrides WHERE scope = 'global'
      OR (scope = 'tenant' AND scope_id = ?) OR (scope = 'project' AND scope_id = ?)
"""  # noqa: S608


def along(db: sqlite3.Connection, org_id: str, project_id: str) -> dict[tuple[str, str, str], PolicyRow]:
    """The overlays of the global scope, of a tenant and of a project, by their keys."""
    names = PolicyRow.__struct_fields__
    rows = [PolicyRow(**dict(zip(names, values, strict=True))) for values in db.execute(_SQL, (org_id, project_id))]
    return {(row.scope, row.scope_id, row.operation_type): row for row in rows}
