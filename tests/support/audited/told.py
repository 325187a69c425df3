"""What the audit log is asked about: for each route that changes something, how it comes to succeed."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx

from hostler.base.digest import sha256_hex
from support.lending import Place

ADMIN = "/api/v1/admin"
OPERATIONS = "/api/v1/projects/train/operations"
JOBS = "/api/v1/projects/train/jobs"
CODE = f"/api/v1/projects/train/bundles/{sha256_hex(b'code')}"
DEMO = {"operation_type": "demo.write", "version": "v1", "inputs": {}}
WHY = {"reason": "a test"}
MADE, CHANGED, GONE = "made", "changed", "gone"
Story = Callable[[Place], Awaitable[httpx.Response]]


class Told(NamedTuple):
    """`story` ends with the one request that is looked at."""

    kind: str
    story: Story


STORIES: dict[str, Told] = {}


def story(kind: str, *routes: str) -> Callable[[Story], Story]:
    def kept(made: Story) -> Story:
        STORIES.update((route, Told(kind, made)) for route in routes)
        return made

    return kept
