"""RN-05: there is a supervisor for each process task, so each loads no more than it needs."""

import json
import subprocess
import sys
from pathlib import Path

from hostler.agent.containers import shim

CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import hostler.agent.containers.shim
print(json.dumps([*sys.modules]))
"""


def test_a_supervisor_loads_the_standard_library_alone_and_none_of_its_cryptography() -> None:
    root = str(Path(shim.__file__).parents[3])
    command = [sys.executable, "-I", "-S", "-c", CODE, root]
    run = subprocess.run(command, capture_output=True, check=True, timeout=60)
    loaded = set(json.loads(run.stdout))
    ours = {name for name in loaded if name.startswith("hostler.agent.") and name.count(".") > 2}
    assert {name.removeprefix("hostler.agent.") for name in ours} == {
        "containers.shim", "containers.shim_child", "containers.shim_log", "containers.shim_mounts", "host.descendants",
    }  # fmt: skip
    assert {name.partition(".")[0] for name in loaded} <= {*sys.stdlib_module_names, "__main__", "hostler"}
    assert not loaded & {"hashlib", "_hashlib", "ssl", "asyncio", "logging"}
