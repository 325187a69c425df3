"""The flags of `hostler jobs run`, and the job that they describe."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import HostlerError, error
from hostler.catalog.job import PRIORITIES, JobSpec
from hostler.cli.jobs_file import constraint_of, spec_of
from hostler.cli.quantities import byte_count, cpu_millis, seconds


class Amount(click.ParamType):  # type: ignore[type-arg]  # older clicks have no arguments there
    """A quantity that a person writes; what it cannot be is wrong usage."""

    def __init__(self, name: str, read: Any) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if isinstance(value, int) else self._read(value)
        except HostlerError as err:
            self.fail(err.message, param, ctx)


CPU, BYTES, SECONDS = Amount("cores", cpu_millis), Amount("bytes", byte_count), Amount("time", seconds)


def run_options(function: Any) -> Any:
    for option in reversed(
        [
            click.option("--name", "-n", default="", help="one part of the job's path [made from the command]"),
            click.option("--image", default="", help="REGISTRY/REPOSITORY@sha256:…; none where a node runs processes"),
            click.option("--pull-credential", is_flag=True, help="the image is private: nodes mint a credential"),
            click.option("--replicas", type=click.IntRange(min=1), default=1, show_default=True, help="tasks"),
            click.option("--cpu", type=CPU, help="cores of each task: 2, 0.5, 500m [1]"),
            click.option("--memory", type=BYTES, help="of each task: 4GiB [1GiB]"),
            click.option("--disk", type=BYTES, help="scratch space of each task"),
            click.option("--shm", type=BYTES, help="size of /dev/shm, part of the memory [64MiB]"),
            click.option("--gpu", default="", metavar="COUNT[:MODEL]", help="GPUs of each task"),
            click.option("--tpu", default="", metavar="COUNT[:TYPE]", help="TPU chips of each task"),
            click.option("--port", "ports", multiple=True, help="name of a port; the node gives a number (repeatable)"),
            click.option("--env", "-e", "env", multiple=True, help="NAME=VALUE, or NAME from here (repeatable)"),
            click.option(
                "--env-file",
                "env_files",
                multiple=True,
                type=click.Path(path_type=Path),
                help="file of such lines (repeatable)",
            ),
            click.option(
                "--constraint", "-c", "constraints", multiple=True, help="zone=a, 'zone in a,b', zone (repeatable)"
            ),
            click.option("--prefer", "preferred", multiple=True, help="the same, where it can be had"),
            click.option("--placement", type=click.Choice(["pack", "spread"]), help="onto few nodes, or many [pack]"),
            click.option("--gang", is_flag=True, help="all tasks or none"),
            click.option("--gang-topology", default="", metavar="LABEL", help="… on nodes that share this label"),
            click.option(
                "--priority", type=click.Choice(list(PRIORITIES)), help="who goes first, and who gives way [normal]"
            ),
            click.option("--retries", type=click.IntRange(min=0), help="tries after a failure of the task [0]"),
            click.option("--timeout", type=SECONDS, help="of each try: 90s, 2h"),
            click.option("--scheduling-timeout", type=SECONDS, help="how long it may wait for a place"),
            click.option(
                "--network", type=click.Choice(["isolated", "host"]), help="its own, or the node's [isolated]"
            ),
            click.option(
                "--security", type=click.Choice(["restricted", "default", "privileged"]), help="its walls [default]"
            ),
            click.option(
                "--runtime",
                type=click.Choice(["containerd", "docker", "process"]),
                help="what runs it [what the node prefers]",
            ),
            click.option(
                "--mount", "mounts", multiple=True, metavar="SOURCE:TARGET[:rw]", help="of the node (repeatable)"
            ),
            click.option("--allocation", default="", help="only on nodes of this allocation"),
            click.option("--existing", type=click.Choice(["error", "keep", "replace"]), help="if it runs [error]"),
        ]
    ):
        function = option(function)
    return function


def spec_from(command: Sequence[str], options: dict[str, Any]) -> JobSpec:
    """Raises a usage error for a flag that is no value, `invalid_request` for a job that is none."""
    resources = {
        "cpu_millis": options["cpu"],
        "memory_bytes": options["memory"],
        "disk_bytes": options["disk"],
        "shm_bytes": options["shm"],
        "device": _device(options["gpu"], options["tpu"]),
    }
    gang = options["gang"] or options["gang_topology"]
    said = {
        "name": options["name"] or generated_name(command),
        "command": list(command),
        "environment": environment(options["env"], options["env_files"]),
        "resources": _told(resources),
        "constraints": [
            *(constraint_of(text) for text in options["constraints"]),
            *(constraint_of(text, prefer=True) for text in options["preferred"]),
        ],
        "gang": {"topology": options["gang_topology"]} if gang else None,
        "retries": None if options["retries"] is None else {"failure": options["retries"]},
        "mounts": [_mount(text) for text in options["mounts"]],
        "timeout_seconds": options["timeout"],
        "scheduling_timeout_seconds": options["scheduling_timeout"],
        "ports": list(options["ports"]),
    }
    plain = (
        "image", "pull_credential", "replicas", "placement", "priority", "network", "security", "runtime", "allocation",
        "existing",
    )  # fmt: skip
    return spec_of(_told(said | {name: options[name] for name in plain}))


def generated_name(command: Sequence[str]) -> str:
    """Of the command's own name, and something that no other job has."""
    base = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in Path(command[0]).name)
    return f"{base.strip('._-')[:40] or 'job'}-{secrets.token_hex(3)}"


def environment(pairs: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    """Files first, flags win. A name alone is taken from here, and has to be there."""
    values: dict[str, str] = {}
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                name, sign, value = line.partition("=")
                if not sign:
                    raise error("invalid_request", f"{path}:{number}: {name[:64]!r} is not of the form NAME=VALUE")
                values[name.strip()] = value
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign and name not in os.environ:
            raise click.UsageError(f"--env {name}: there is no such variable here; write {name}=VALUE")
        values[name] = value if sign else os.environ[name]
    return values


def _device(gpu: str, tpu: str) -> dict[str, Any] | None:
    if gpu and tpu:
        raise click.UsageError("a task has --gpu or --tpu, not both")
    text = gpu or tpu
    if not text:
        return None
    count, _, model = text.partition(":")
    if not (count.isascii() and count.isdigit() and len(count) <= 3):
        raise click.UsageError(f"{text!r} is not of the form COUNT or COUNT:MODEL")
    return {"kind": "gpu" if gpu else "tpu", "count": int(count), "model": model}


def _mount(text: str) -> dict[str, Any]:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not target or mode not in ("", "ro", "rw"):
        raise click.UsageError(f"--mount {text!r} is not of the form SOURCE:TARGET or SOURCE:TARGET:rw")
    return {"source": source, "target": target, "read_only": mode != "rw"}


def _told(values: dict[str, Any]) -> dict[str, Any]:
    """Without what was not said: the job's own defaults hold for that."""
    return {name: value for name, value in values.items() if value is not False and value not in (None, "", [], {})}
