"""What a person types on the host, word for word, and what proves the package (LC-08, LC-11)."""

import shlex
from collections.abc import Mapping
from typing import Any

from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.package_urls import metadata_url, mint

TOKEN_FILE = "node.token"  # noqa: S105 - the name of a file
ENROLL = f"hostler-agent enroll --config /etc/hostler/agent.toml --again --token-file {TOKEN_FILE}"


def with_commands(next_action: Mapping[str, Any], run_id: str, settings: AgentSettings, now_ms: int) -> dict[str, Any]:
    """The stored next action with addresses that are good from now on, and the commands made of them."""
    shown = dict(next_action)
    if shown.get("kind") != "manual":
        return shown
    commands: list[str] = []
    package = shown.get("package")
    if package is not None:
        url, expires_ms = mint(settings, package["file"], run_id, now_ms)
        shown["package"] = {**package, "url": url, "url_expires_ms": expires_ms, "metadata_url": metadata_url(settings)}
        commands += _install(package, url, metadata_url(settings))
    if shown.get("action") in ("install_and_enroll", "enroll_again"):
        commands += ["systemctl stop hostler-agent hostler-session", ENROLL, "systemctl start hostler-agent"]
    return shown | {"commands": commands}


def _install(package: Mapping[str, Any], url: str, metadata: str) -> list[str]:
    file = shlex.quote(package["file"])
    return [
        f"curl --fail --location --output {file} {shlex.quote(url)}",
        f"echo {shlex.quote(package['sha256'] + '  ' + package['file'])} | sha256sum --check --strict",
        f"curl --fail --output metadata.json {shlex.quote(metadata)}",
        f"hostler releases check {file} --metadata metadata.json --trust /etc/hostler/trust.json",
        f"apt-get -o Dpkg::Options::=--force-confold install {shlex.quote('./' + package['file'])}",
    ]
