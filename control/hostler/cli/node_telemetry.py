"""`hostler nodes telemetry`: what a node has measured of itself."""

import re
import time
from typing import Any

import click

from hostler.cli.client import Client, quoted
from hostler.cli.output import guarded, output_option, print_json, table
from hostler.cli.settings import Settings

_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST = 10_000


@click.command()
@click.argument("node")
@click.option("--since", default="1h", show_default=True, metavar="AGO", help="how far back: 90s, 15m, 2h, 3d")
@output_option
@click.pass_obj
@guarded
def telemetry(settings: Settings, node: str, since: str, output: str) -> None:
    """Show what a node has measured: processors, memory, disk, GPUs, containers. Oldest first."""
    found = _AGO.fullmatch(since)
    if found is None:
        raise click.UsageError(f"--since takes a number and s, m, h or d, not {since!r}")
    since_ms = int((time.time() - int(found[1]) * _UNITS[found[2]]) * 1000)
    path = f"/api/v1/admin/nodes/{quoted(node)}/telemetry"
    items = list(Client(settings).pages(path, page_size=1000, since=max(0, since_ms)))
    if output == "json":
        print_json(items)
        return
    heads = ("TIME", "CPU", "LOAD", "MEMORY", "DISK", "GPU", "GPU MEMORY", "CONTAINERS")
    table(heads, [_row(item) for item in items[-_MOST:]])


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    at = time.strftime("%H:%M:%S", time.localtime(item["at_ms"] / 1000))
    return (
        at,
        percent(item.get("cpu_percent")),
        _number(item.get("load_1m")),
        share(item, "memory"),
        share(item, "disk"),
        percent(item.get("gpu_percent")),
        share(item, "gpu_memory"),
        _number(item.get("containers")),
    )


def summary(item: dict[str, Any]) -> str:
    """The newest in one line, for `hostler nodes get`."""
    parts = {
        "cpu": percent(item.get("cpu_percent")),
        "load": _number(item.get("load_1m")),
        "memory": share(item, "memory"),
        "disk": share(item, "disk"),
        "gpu": percent(item.get("gpu_percent")),
        "gpu memory": share(item, "gpu_memory"),
        "containers": _number(item.get("containers")),
    }
    return ", ".join(f"{name} {text}" for name, text in parts.items() if text != "-")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def share(item: dict[str, Any], name: str) -> str:
    used, total = item.get(f"{name}_used_bytes"), item.get(f"{name}_total_bytes")
    return "-" if used is None or not total else f"{used / 2**30:.1f}/{total / 2**30:.1f} GiB"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
