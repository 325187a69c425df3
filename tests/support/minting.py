"""A real agent with one more step kind, `test.mint`: it makes a secret from a file, as a credential will be.

`minting.py hostler-agent|hostler-control ARGUMENTS...` is the program of that name with the kind in its tables.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.digest import sha256_hex
from hostler.catalog import kinds

KIND_NAME = "test.mint"
WITHOUT = "--without"


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    file: what to read the secret from.
    steps: ids of the steps that may use it.
    """

    file: str
    steps: tuple[str, ...]
    lifetime_seconds: float = 60
    one_time: bool = False


class MintKind:
    name = KIND_NAME

    async def plan(self, view: Any) -> Any:
        from hostler.agent.steps.contract import Change, Plan

        return Plan((Change(action="mint", target=sha256_hex(view.params.file.encode())),))

    async def apply(self, context: Any) -> Any:
        from hostler.agent.secrets.secret import Secret
        from hostler.agent.steps.contract import Outcome

        params: Params = context.params
        fd = os.open(params.file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            secret = Secret.read_from(fd)
        finally:
            os.close(fd)
        steps, lifetime = frozenset(params.steps), params.lifetime_seconds
        handle = context.secrets.put(secret, steps=steps, lifetime_s=lifetime, one_time=params.one_time)
        return Outcome(outputs={"handle": handle})

    async def probe(self, view: Any) -> Any:
        from hostler.agent.steps.contract import Probe, Truth

        return Probe(truth=Truth.NOT_DONE)  # what it made went with the agent


KIND = MintKind()


def programs(name: str) -> list[str]:
    """For `open_house(programs=...)`."""
    return [sys.executable, "-P", str(Path(__file__).resolve()), name]


def weakened(guard: Any) -> Callable[[str], list[str]]:
    """The same with one `support.mutant.Guard` out of the agent."""

    def command(name: str) -> list[str]:
        python, flag, script, program = programs(name)
        out = [WITHOUT, json.dumps(asdict(guard))] if name == "hostler-agent" else []
        return [python, flag, script, *out, program]

    return command


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    if sys.argv[1] == WITHOUT:
        os.environ["HOSTLER_TEST_MUTANT"] = sys.argv[2]
        del sys.argv[1:3]
        import support.mutant  # noqa: F401 - takes the guard out of what is imported from now on
    kinds.KINDS[KIND_NAME] = kinds.Kind(Params, "for tests", ("handle",))
    program, sys.argv[0:2] = sys.argv[1], [sys.argv[1]]
    if program == "hostler-agent":
        from hostler.agent.main import console
        from hostler.agent.steps import table

        table.MODULES[KIND_NAME] = "support.minting"
        console()
    else:
        from hostler.control.main import console as control_console

        control_console()


if __name__ == "__main__":
    main()
