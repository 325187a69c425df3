"""Files of a host that is installed anew."""

import json
import tomllib
from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.control.delivery.settings import UpdateSettings

CONFIG = "/etc/hostler"
TOKEN_FILE = f"{CONFIG}/enrol.token"
CA_FILE = f"{CONFIG}/packages-ca.pem"


class HostFiles(msgspec.Struct, frozen=True):
    """What every such host is given, besides what is its own.

    Attributes:
        ca: of the authority that public_url has its certificate from; "" for one that hosts know.
        toml: settings of the operator's own for agent.toml.
    """

    ca: str = ""
    toml: str = ""


def read(settings: UpdateSettings) -> HostFiles:
    """Read once, so that a mistake is found when the control plane starts. Raises `invalid_config`."""
    found = HostFiles(_text("ca_file", settings.ca_file), _text("host_toml_file", settings.host_toml_file))
    if found.ca and not (found.ca.isascii() and "-----BEGIN CERTIFICATE-----" in found.ca):
        raise error("invalid_config", f"{settings.ca_file} ([updates] ca_file) holds no certificate in PEM")
    agent_toml("control.example.com:1", "control.example.com:2", found)
    return found


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as err:
        raise error("invalid_config", f"{path} ([updates] {name}) cannot be read: {err}") from err


def agent_toml(node_address: str, enroll_address: str, files: HostFiles) -> str:
    """The least that an agent needs, and the operator's own. A basic string of TOML is one of JSON.

    Keys stand before tables, so the operator's own stand between. Raises `invalid_config` where the two contradict.
    """
    text = (
        f"token_file = {json.dumps(TOKEN_FILE)}\n{files.toml}\n[control]\n"
        f"address = {json.dumps(node_address)}\nenroll_address = {json.dumps(enroll_address)}\n"
    )
    if files.ca:
        text += f"\n[fetch]\nca_file = {json.dumps(CA_FILE)}\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise error(
            "invalid_config",
            f"[updates] host_toml_file does not go together with what such a host is given: {err}",
            hint="leave out token_file and [control], and with ca_file [fetch] too",
        ) from err
    return text
