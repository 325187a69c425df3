"""What a definition requires of a node, against what the node says it has (CG-01, CG-02, RS-08).

Both sides use this: the control plane, so that nothing incompatible is sent, and the node, which relies on nobody.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_KEYS, MAX_VALUE = 64, 128
_KEY = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*", re.ASCII)
_MAX_KEY = 64

# What nodes report: key → its values, or None where they are open. `terminal` gets more with an agent that has one.
REPORTED: dict[str, frozenset[str] | None] = {
    "compute.runtime": frozenset({"cuda", "level_zero", "none", "rocm"}),
    "container.runtime": frozenset({"containerd", "docker", "other"}),
    "cpu.millis": None,
    "disk.bytes": None,
    "fabric.type": frozenset({"ethernet", "infiniband", "none", "nvlink", "roce"}),
    "gpu.architecture": None,
    "gpu.count": None,
    "gpu.driver_series": None,
    "gpu.vendor": frozenset({"amd", "intel", "nvidia", "other"}),
    "host.init": frozenset({"other", "systemd"}),
    "host.mutation": frozenset({"full", "none"}),
    "memory.bytes": None,
    "os.distro": None,
    "os.kernel": None,
    "os.machine": None,
    "python.conda": frozenset({"none", "present"}),
    "terminal": None,
    "tpu.type": None,
    "workload.runtimes": None,
}


def never_met(required: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(key, message, hint) of every requirement that no node can report, so that nothing would ever run."""
    for key, wanted in required.items():
        values = REPORTED.get(key, frozenset())
        if values is None:
            continue
        if not values:
            yield key, f"no node reports a capability {key!r}", f"the keys are {', '.join(sorted(REPORTED))}"
        elif not any(_fits(value, wanted) for value in values):
            yield key, f"no node reports {wanted!r} as {key}", f"the values are {', '.join(sorted(values))}"


def unmet(required: Mapping[str, Any], have: Mapping[str, str]) -> str:
    """The first required key that the node lacks; "" when it lacks none. A list of values means any of them."""
    return next((key for key, wanted in required.items() if key not in have or not _fits(have[key], wanted)), "")


def sentence(key: str, required: Mapping[str, Any], have: Mapping[str, str]) -> str:
    """What the node has there, and what was wanted."""
    wanted = required[key]
    shown = " or ".join(map(str, wanted)) if isinstance(wanted, list | tuple) else str(wanted)
    return f"capability {key} is {have.get(key, 'unknown')} on this node, not {shown}"


def bounded(said: Mapping[str, str]) -> dict[str, str]:
    """What of a node's own words is kept: well-formed keys and short printable values, the first by name.

    A node that says too much harms itself alone, by what is left out.
    """
    good = (
        (key, value)
        for key, value in sorted(said.items())
        if len(key) <= _MAX_KEY and _KEY.fullmatch(key) and len(value) <= MAX_VALUE and value.isprintable()
    )
    return dict(pair for pair, _ in zip(good, range(MAX_KEYS), strict=False))


def _fits(found: str, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return any(_fits(found, one) for one in wanted)
    if isinstance(wanted, bool):
        return found == ("true" if wanted else "false")
    return found == str(wanted)
