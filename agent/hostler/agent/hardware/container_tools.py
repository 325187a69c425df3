"""What containers could be given: CDI devices as nvidia-ctk and amd-ctk list them, or containerd's configuration.

Formats: `nvidia-ctk cdi list` and `amd-ctk cdi list` print one qualified name a line (Container Device Interface,
`vendor/class=name`); `containerd config dump` prints TOML.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from hostler.agent.hardware.reports import Exposed, Unreadable, word

_QUALIFIED = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}/gpu=([A-Za-z0-9][A-Za-z0-9_.:-]{0,127})")
_NOTE = re.compile(r"(INFO\[\d+\]|Found \d+ |\s+/dev/).*")
_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")


def cdi(_argv: Sequence[str], output: str) -> Exposed:
    """Names of single GPUs; a list often holds each under a number and under an id, and all of them under `all`."""
    names = []
    for line in output.splitlines():
        if match := _QUALIFIED.fullmatch(line.strip()):
            names.append((line.strip(), match[1]))
        elif line.strip() and not _NOTE.fullmatch(line):
            raise Unreadable(f"{line.strip()[:64]!r} is no CDI device")
    single = [name for name in names if name[1] != "all"]
    numbered = [name for name in single if re.fullmatch(r"[0-9]{1,4}", name[1])]
    kept = numbered or single
    return Exposed(len({name for name, _ in kept}), tuple(sorted({name for name, _ in kept})))


def containerd(_argv: Sequence[str], output: str) -> Exposed:
    """Handlers of the CRI plugin that stand for devices, and `cdi` where it takes CDI devices itself."""
    try:
        config = tomllib.loads(output)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as err:
        raise Unreadable("the output is no TOML") from err
    plugins = _table(config, "plugins")
    disabled = config.get("disabled_plugins", [])
    cri = next((_table(plugins, name) for name in _CRI if name in plugins), None)
    if cri is None or not isinstance(disabled, list) or any(name in ("cri", *_CRI) for name in disabled):
        raise Unreadable("containerd's CRI plugin is off")
    runtimes = _table(_table(cri, "containerd"), "runtimes")
    names = [word(name, "a runtime") for name in runtimes if name not in ("runc", "crun")]
    return Exposed(None, tuple(sorted([*names, *(["cdi"] if cri.get("enable_cdi") is True else [])])))


def _table(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, dict):
        raise Unreadable(f"{name} is no table")
    return found


READERS: dict[str, Callable[[Sequence[str], str], Exposed]] = {
    "nvidia-ctk": cdi,
    "amd-ctk": cdi,
    "containerd": containerd,
}
