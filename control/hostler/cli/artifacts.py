"""`hostler operations artifacts`: the list, and small outputs into a directory, each checked against its digest."""

import re
from pathlib import Path
from typing import Any

import click

from hostler.base.digest import same_digest, sha256_hex
from hostler.base.errors import error
from hostler.cli.client import Client, quoted
from hostler.cli.output import print_json, table

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def show(items: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        print_json(items)
        return
    rows = [
        (
            item["artifact_id"],
            item["node_name"],
            item["step_id"],
            item["kind"],
            item["name"],
            item["size_bytes"],
            item["sha256"],
        )
        for item in items
    ]
    table(("ARTIFACT", "NODE", "STEP", "KIND", "NAME", "BYTES", "SHA-256"), rows)


def download(client: Client, path: str, items: list[dict[str, Any]], directory: Path, output: str) -> None:
    """Raises `digest_mismatch` for content that is not what the list says."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for item in items:
        if not item["downloadable"]:
            continue
        content = client.raw(f"{path}/{quoted(item['artifact_id'])}")
        if not same_digest(sha256_hex(content), item["sha256"]):
            raise error(
                "digest_mismatch", f"artifact {item['artifact_id']} came with other bytes than its digest names"
            )
        target = directory / file_name(item)
        target.write_bytes(content)
        written.append({"file": str(target), "sha256": item["sha256"], "bytes": len(content)})
    if output == "json":
        print_json(written)
        return
    for one in written:
        click.echo(f"{one['sha256']}  {one['file']}")


def file_name(item: dict[str, Any]) -> str:
    """Node, step, name and the end of the id: one plain file name, whatever a node called things."""
    parts = (item["node_name"], str(item["attempt_number"]), item["step_id"], item["name"], item["artifact_id"][-8:])
    return "-".join(_UNSAFE.sub("_", part)[:60] for part in parts).lstrip(".-")
