"""How a node stands, in the words that everybody reads (OD-15).

A node's row keeps `never` for one that has not connected yet, and whether it was revoked in a column of its own.
"""

CONNECTIONS = ("enrolling", "connected", "lost", "retired")


def connection_of(table: str = "nodes") -> str:
    """The column `connection` of a query, in those words."""
    return (
        f"CASE WHEN {table}.state = 'revoked' THEN 'retired' WHEN {table}.connection = 'never' THEN 'enrolling'"
        f" ELSE {table}.connection END AS connection"
    )
