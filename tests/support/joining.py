"""Contexts for `cluster.join` and `cluster.verify`, with a credential behind a handle as a minting step leaves it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable, StepSecrets
from hostler.agent.steps.contract import StepContext
from hostler.base.clock import Deadline, SystemClock
from hostler.base.strict import convert
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.params.cluster import Join, Verify
from support.steps import Told, context_of


def joining(
    host: Host,
    params: dict[str, Any],
    credential: Any = None,
    *,
    command: CommandProfile | None = None,
    table: SecretTable | None = None,
    **more: Any,
) -> StepContext:
    """A context of the step `step`; a `credential` is the one-time material that it may use."""
    table = table or SecretTable(Deadline.after(300, SystemClock()), SystemClock())
    handle = ""
    if credential is not None:
        secret = Secret.take(bytearray(msgspec.json.encode(credential)))
        handle = StepSecrets(table, "mint").put(secret, steps=frozenset({"step"}), lifetime_s=300, one_time=True)
    made = convert(params | {"credential": handle}, Join)
    return replace(context_of(made, host, more.pop("told", Told()), secrets=table, **more), command=command)


def verifying(host: Host, params: dict[str, Any], *, command: CommandProfile | None = None, **more: Any) -> StepContext:
    told = more.pop("told", Told())
    return replace(context_of(convert(params, Verify), host, told, **more), command=command)


@contextmanager
def open_folder() -> Iterator[Path]:
    """One that every user may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="hostler-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)
