"""CDI specifications (Container Device Interface 0.3 and later): which devices of a node have a qualified name.

Pure but for reading the files: `vendor/class=name` and the device nodes behind it. A file that cannot be read says
nothing; it never ends anything.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hostler.agent.hardware.tree import entries, read

PLACES = ("etc/cdi", "var/run/cdi", "run/cdi")
MOST_BYTES = 1 << 20
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}/([A-Za-z0-9][A-Za-z0-9_.-]{0,62})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_NUMBER = re.compile(r"[0-9]{1,4}")


class CdiDevice(NamedTuple):
    """`class_` is such as gpu; `nodes` are paths on the host."""

    class_: str
    name: str
    qualified: str
    nodes: tuple[str, ...]


def cdi_devices(root: Path) -> tuple[CdiDevice, ...]:
    """Single devices, each once: by number where a specification numbers them, else by its other name."""
    found: dict[str, CdiDevice] = {}
    for place in PLACES:
        for name in entries(root / place):
            if name.endswith((".json", ".yaml", ".yml")):
                for device in parse(read(root / place / name, MOST_BYTES), name):
                    found.setdefault(device.qualified, device)
    numbered = {device.class_ for device in found.values() if _NUMBER.fullmatch(device.name)}
    kept = [one for one in found.values() if one.class_ not in numbered or _NUMBER.fullmatch(one.name)]
    return tuple(sorted(kept, key=lambda one: (one.class_, len(one.name), one.name)))


def parse(text: str, file: str) -> Iterator[CdiDevice]:
    """Every device of one specification but `all`, which stands for all of them."""
    document = _document(text, file)
    kind = document.get("kind")
    devices = document.get("devices")
    match = _KIND.fullmatch(kind) if isinstance(kind, str) else None
    if match is None or not isinstance(devices, list):
        return
    for device in devices:
        name = device.get("name") if isinstance(device, dict) else None
        name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
        if isinstance(name, str) and _NAME.fullmatch(name) and name != "all":
            yield CdiDevice(match[1], name, f"{kind}={name}", _nodes(device))


def _document(text: str, file: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text) if file.endswith(".json") else _yaml(text)
    except (msgspec.MsgspecError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _yaml(text: str) -> Any:
    import yaml  # an idle agent on a node without devices carries none

    try:
        return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as err:
        raise ValueError("no YAML") from err


def _nodes(device: dict[str, Any]) -> tuple[str, ...]:
    edits = device.get("containerEdits")
    nodes = edits.get("deviceNodes") if isinstance(edits, dict) else None
    paths = [node.get("hostPath") or node.get("path") for node in nodes or () if isinstance(node, dict)]
    return tuple(path for path in paths if isinstance(path, str) and path.startswith("/"))
