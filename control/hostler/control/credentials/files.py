"""Credentials that exist already and are handed out as they are, to whom policy allows, for the length of a task.

A hub's read token, a Slurm cluster's key, a Ray cluster's token: their issuers make none that ends by itself. They are
wiped on the node; whoever takes a node over while it uses one has it until it is changed. `docs/operator.md` says so.
"""

from pathlib import Path

from hostler.base.errors import error
from hostler.catalog.credentials import HfToken, RayJoin, SlurmJoin
from hostler.control.credentials.config import RayTokenConfig, ReadTokenConfig, SlurmKeyConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private

_LEAST_KEY_BYTES = 32  # munge's own minimum


class ReadToken:
    """`hf_token`. Make it a fine-grained one: read of the repositories in `scopes` and nothing else."""

    def __init__(self, config: ReadTokenConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        return Made(material=HfToken(token=_text(self._config.secret_file, self.name)), expires_at_ms=0)


class SlurmKey:
    """`cluster_join_token` for Slurm."""

    def __init__(self, config: SlurmKeyConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        key = read_private(Path(self._config.secret_file))
        if len(key) < _LEAST_KEY_BYTES:
            raise error("invalid_config", f"the secret of minter {self.name} is shorter than {_LEAST_KEY_BYTES} bytes")
        return Made(material=SlurmJoin(key=key, controllers=self._config.controllers), expires_at_ms=0)


class RayToken:
    """`cluster_join_token` for Ray."""

    def __init__(self, config: RayTokenConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        token = _text(self._config.secret_file, self.name)
        return Made(material=RayJoin(address=self._config.address, token=token), expires_at_ms=0)


def _text(path: str, name: str) -> str:
    try:
        text = read_private(Path(path)).decode().strip()
    except UnicodeDecodeError:
        raise error("invalid_config", f"the secret of minter {name} is no text") from None
    if not text:
        raise error("invalid_config", f"the secret of minter {name} is empty")
    return text
