"""Named points where a test may end, fail or hold this process. Nothing is armed outside tests.

Armed from `[testing]` of agent.toml, and only with `enabled = true` there:

    [testing]
    enabled = true
    fault_points = ["after_intent:kill:artifact.pull_blob"]
"""

import os
import signal
from collections.abc import Callable, Sequence

from hostler.base.errors import error

BOUNDARIES = ("before_intent", "after_intent", "after_effect", "after_receipt", "after_report")
ACTIONS = ("kill", "error", "stop")
ANY_KIND = "*"


class FaultError(Exception):
    """What the action `error` raises."""


_hook: Callable[[str, str], None] | None = None


def point(boundary: str, kind: str) -> None:
    """Does nothing, unless a test has armed it."""
    if _hook is not None:
        _hook(boundary, kind)


def arm(points: Sequence[str], *, enabled: bool) -> None:
    """Arms `boundary:action:kind` points; each fires once. No points disarm.

    Raises:
        HostlerError: `invalid_config` for a point that does not exist, or without `enabled`.
    """
    global _hook
    if not points:
        _hook = None
        return
    if not enabled:
        raise error("invalid_config", "testing.fault_points is set but testing.enabled is not")
    armed = {_parse(text) for text in points}

    def fire(boundary: str, kind: str) -> None:
        for name in (kind, ANY_KIND):
            for action in ACTIONS:
                if (boundary, action, name) in armed:
                    armed.remove((boundary, action, name))
                    _act(action, boundary, kind)

    _hook = fire


def _parse(text: str) -> tuple[str, str, str]:
    boundary, _, rest = text.partition(":")
    action, _, kind = rest.partition(":")
    if boundary not in BOUNDARIES or action not in ACTIONS or not kind:
        raise error("invalid_config", f"testing.fault_points: {text!r} is not boundary:action:kind")
    return boundary, action, kind


def _act(action: str, boundary: str, kind: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    raise FaultError(f"fault {boundary} in {kind}")
