"""Paths and bodies of the operations API, as the command line builds them."""

import secrets
from typing import Any

import click
import msgspec

from hostler.base.errors import error
from hostler.cli.client import quoted
from hostler.cli.settings import Settings


def project_of(settings: Settings) -> str:
    """Raises a usage error where no project is named."""
    if not settings.project:
        raise click.UsageError("no project: pass 'hostler --project NAME …' or set it in the configuration file")
    return settings.project


def operations_path(settings: Settings) -> str:
    return f"/api/v1/projects/{quoted(project_of(settings))}/operations"


def operation_path(settings: Settings, operation_id: str) -> str:
    return f"{operations_path(settings)}/{quoted(operation_id)}"


def split_pairs(pairs: tuple[str, ...], what: str) -> dict[str, str]:
    """`("a=1",)` as `{"a": "1"}`."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{what} {pair!r} is not of the form name=value")
        values[name] = value
    return values


def read_inputs(pairs: tuple[str, ...], file: Any) -> dict[str, Any]:
    """Inputs from a YAML or JSON file, then from `name=text` and `name:=json` pairs."""
    inputs = _from_file(file) if file else {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"input {pair!r} is not of the form name=text or name:=json")
        inputs[name.removesuffix(":")] = _json(name, value) if name.endswith(":") else value
    return inputs


def _from_file(file: Any) -> dict[str, Any]:
    import yaml  # only a submit with an input file pays for it

    try:
        loaded = yaml.safe_load(file.read())
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        where = getattr(err, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise error("invalid_yaml", f"{file.name}{line} is not valid YAML") from err
    if not isinstance(loaded, dict):
        raise error("invalid_yaml", f"{file.name} does not hold a mapping of inputs")
    return loaded


def _json(name: str, value: str) -> Any:
    try:
        return msgspec.json.decode(value.encode())
    except msgspec.MsgspecError as err:
        raise click.UsageError(f"input {name.rstrip(':')!r} is not valid JSON") from err


def submit_body(
    ref: str,
    *,
    inputs: dict[str, Any],
    nodes: tuple[str, ...],
    labels: dict[str, str],
    replicas: int = 1,
    key: str | None = None,
    mode: str = "apply",
    approved_plans: dict[str, str] | None = None,
    allocation: str = "",
) -> dict[str, Any]:
    """The body of a submit; `ref` is `type@version`."""
    operation_type, at, version = ref.rpartition("@")
    if not at:
        raise click.UsageError(f"{ref!r} is not of the form type@version, such as model.artifact.stage@v1")
    if not nodes and not labels and not allocation:
        raise click.UsageError("name at least one target with --node, --label or --allocation")
    selector: dict[str, Any] = {"nodes": nodes, "labels": labels, "replicas": replicas}
    if allocation:
        selector["allocation"] = allocation
    return {
        "operation_type": operation_type,
        "version": version,
        "inputs": inputs,
        "target_selector": selector,
        "idempotency_key": key or secrets.token_hex(16),
        "mode": mode,
        "approved_plans": approved_plans or {},
    }
