"""Every event that the code makes stands in the table of types, and nothing else does (EV-11)."""

import ast
from pathlib import Path

import hostler.control.kernel
from hostler.control.kernel import events
from hostler.control.kernel.event_types import EVENT_TYPES

KERNEL = Path(hostler.control.kernel.__path__[0])
MAKERS = {"task_event", "operation_event", "node_event", "admin_event", "notice", "_of_task", "EventRow"}


def made() -> set[str]:
    """First arguments (or `type=`) of the functions that make events, where they are text or a name of `events`."""
    found: set[str] = set()
    for path in KERNEL.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in MAKERS:
                continue
            first = next((k.value for k in node.keywords if k.arg in ("type", "type_")), None)
            first = first or (node.args[0] if node.args else None)
            found |= _texts(first)
    return found


def _texts(node: ast.expr | None) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.IfExp):
        return _texts(node.body) | _texts(node.orelse)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    value = getattr(events, name, None) if name.isupper() else None
    return {value} if isinstance(value, str) else set()


def test_EV_11_every_event_that_is_made_stands_in_the_table() -> None:
    assert made() - set(EVENT_TYPES) == set()


def test_EV_11_every_type_of_the_table_is_made_somewhere() -> None:
    source = "\n".join(path.read_text() for path in KERNEL.rglob("*.py") if path.name != "event_types.py")
    assert [type_ for type_ in EVENT_TYPES if f'"{type_}"' not in source] == []
