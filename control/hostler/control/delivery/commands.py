"""What a person types, word for word: on the host, and at their own desk to prove the package (LC-08, LC-11)."""

import shlex
from collections.abc import Mapping
from typing import Any

from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.package_urls import metadata_url, mint

TOKEN_FILE = "node.token"  # noqa: S105 - the name of a file
ENROLL = f"hostler-agent enroll --config /etc/hostler/agent.toml --again --token-file {TOKEN_FILE}"


def with_commands(next_action: Mapping[str, Any], run_id: str, settings: AgentSettings, now_ms: int) -> dict[str, Any]:
    """The stored next action with addresses that are good from now on, and the commands made of them.

    `commands` are for the host. `check_command` is for where `hostler` and a `trust.json` are: the update keys have
    signed the very digest that the host then compares, whatever this control plane says.
    """
    shown = dict(next_action)
    if shown.get("kind") != "manual":
        return shown
    commands: list[str] = []
    package = shown.get("package")
    if package is not None:
        url, expires_ms = mint(settings, package["file"], run_id, now_ms)
        shown["package"] = {**package, "url": url, "url_expires_ms": expires_ms, "metadata_url": metadata_url(settings)}
        commands += _install(package, url)
        shown["check_command"] = f"hostler releases check {package['sha256']} --trust trust.json"
    if shown.get("action") in ("install_and_enroll", "enroll_again"):
        commands += ["systemctl stop hostler-agent hostler-session", ENROLL, "systemctl start hostler-agent"]
    return shown | {"commands": commands}


def _install(package: Mapping[str, Any], url: str) -> list[str]:
    file = shlex.quote(package["file"])
    return [
        f"curl --fail --location --output {file} {shlex.quote(url)}",
        f"echo {shlex.quote(package['sha256'] + '  ' + package['file'])} | sha256sum --check --strict",
        f"apt-get -o Dpkg::Options::=--force-confold install {shlex.quote('./' + package['file'])}",
    ]
