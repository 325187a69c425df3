"""`hostler-agent` itself, with the fake runtime of `fake_terminal` below it."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostler.agent import daemon
from hostler.agent.containers import find
from hostler.agent.main import main
from hostler.agent.runner.runner import Runner
from support.fake_terminal import FakeRuntime, FakeWorkloads


def runner(**given: Any) -> Runner:
    pids = Path(sys.argv[-1]).with_name("pids")
    return Runner(**(given | {"workloads": FakeWorkloads(FakeRuntime(pids))}))


if __name__ == "__main__":
    find.RUNTIMES = ("process",)
    daemon.Runner = runner  # type: ignore[assignment,misc]
    main()
