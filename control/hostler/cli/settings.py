"""Where the control plane is and who asks: flag, then configuration file, then default."""

import os
import tomllib
from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.base.strict import convert

DEFAULT_SERVER = "http://127.0.0.1:7080"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of the configuration file.

    Attributes:
        server: base address of the admin HTTP API.
        token_file: file with the bearer token, mode 0600; the token itself is never an argument.
        ca_file: CA certificates (PEM) of an HTTPS server outside the system's store.
        project: default of `--project`.
    """

    server: str = DEFAULT_SERVER
    token_file: str = ""
    ca_file: str = ""
    project: str = ""


def default_path() -> Path:
    """`$HOSTLER_CONFIG`, else `~/.config/hostler/config.toml`."""
    named = os.environ.get("HOSTLER_CONFIG")
    return Path(named) if named else Path.home() / ".config" / "hostler" / "config.toml"


def load(path: Path | None) -> Settings:
    """Raises `invalid_config` naming file and key; an absent default file is no error."""
    chosen = path or default_path()
    if not chosen.exists():
        if path or "HOSTLER_CONFIG" in os.environ:
            raise error("invalid_config", f"configuration file {chosen} does not exist")
        return Settings()
    try:
        values = tomllib.loads(chosen.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise error("invalid_config", f"{chosen} is not valid TOML: {err}") from err
    except OSError as err:
        raise error("invalid_config", f"{chosen} cannot be read: {err.strerror}") from err
    return convert(values, Settings, code="invalid_config", what=str(chosen))


def read_token(settings: Settings) -> str:
    """The bearer token, or "" where none is configured.

    Raises:
        HostlerError: `invalid_config` when the file is absent or readable by others.
    """
    if not settings.token_file:
        return ""
    path = Path(settings.token_file).expanduser()
    try:
        mode = path.stat().st_mode
        text = path.read_bytes().decode("ascii", "replace").strip()
    except OSError as err:
        raise error("invalid_config", f"token file {path} cannot be read: {err.strerror}") from err
    if mode & 0o077:
        raise error("invalid_config", f"token file {path} is open to others", hint=f"chmod 600 {path}")
    if not (text.isascii() and text.isprintable() and len(text.split()) == 1):
        raise error("invalid_config", f"token file {path} does not hold one token")
    return text
