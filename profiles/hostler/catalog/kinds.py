"""The closed table of step kinds (SK, OD-14): what both sides know of each."""

from typing import NamedTuple

import msgspec

from hostler.catalog.params.artifact import PullBlob, Verify
from hostler.catalog.params.command import ExecAllowlisted
from hostler.catalog.params.file import Render
from hostler.catalog.params.health import HealthCheck


class Kind(NamedTuple):
    params: type[msgspec.Struct]
    summary: str
    destructive: bool = False


KINDS: dict[str, Kind] = {
    "artifact.pull_blob": Kind(PullBlob, "fetch a blob over HTTPS with resume and integrity on the way"),
    "artifact.verify": Kind(Verify, "check a file's digest and signature"),
    "file.render": Kind(Render, "write a file from a signed template"),
    "command.exec_allowlisted": Kind(ExecAllowlisted, "run a command profile of the signed catalog"),
    "health.check": Kind(HealthCheck, "run typed checks until they pass or time is up"),
}
