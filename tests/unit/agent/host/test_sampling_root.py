"""API-26: a node whose root is a directory of this machine profiles tasks that are processes of this machine."""

import os
from pathlib import Path

from hostler.agent.host.sampling import Sampling


def test_API_26_processes_are_seen_where_the_node_s_root_has_no_proc(tmp_path: Path) -> None:
    own = os.getpid()
    assert own in {each.pid for each in Sampling(tmp_path).memory(own)}
    assert own in {each.tid for each in Sampling(tmp_path).threads(own)}
    (tmp_path / "proc").mkdir()
    assert Sampling(tmp_path).memory(own) == []
