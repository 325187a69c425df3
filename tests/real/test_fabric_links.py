"""SK-11: real links in a network namespace of their own. RDMA ports are only written down: see the unit tests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from support.mutant import ROOT

pytestmark = pytest.mark.real

INSIDE = """
import asyncio, json, subprocess, sys
import msgspec
from pathlib import Path
from hostler.agent.steps.network_fabric_verify import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.network import FabricVerify
from support.commands import host_in
from support.steps import Told, context_of

async def main(spool, steps):
    for step in steps:
        for command in step["commands"]:
            subprocess.run(["ip", *command.split()], check=True)
        async with host_in(Path(spool)) as host:
            made = context_of(msgspec.convert(step["params"], FabricVerify), host, Told())
            try:
                outcome = await KIND.apply(made)
                said = ["ok", outcome.outputs["results"]]
            except HostlerError as err:
                said = [err.code, err.message]
        print(json.dumps(said), flush=True)

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


def inside(tmp_path: Path, *steps: dict[str, Any]) -> list[Any]:
    """Each step's result, all in one new network namespace, which ends with the process."""
    need("unshare", "ip")
    need_root()
    command = ["unshare", "--net", "--mount", sys.executable, "-P", "-c", INSIDE, str(tmp_path), json.dumps(steps)]
    environment = {"PYTHONPATH": str(ROOT / "tests"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_SK_11_a_link_that_goes_down_is_named(tmp_path: Path) -> None:
    params = {"interfaces": [{"name": "fab0", "minimum_mtu": 9000}]}
    make = ["link add fab0 type veth peer name fab1", "link set fab0 mtu 9000", "link set fab1 mtu 9000"]
    absent, configured_down, up, no_carrier, small = inside(
        tmp_path,
        {"commands": [], "params": params},
        {"commands": make, "params": params},
        {"commands": ["link set fab0 up", "link set fab1 up"], "params": params},
        {"commands": ["link set fab1 down"], "params": params},
        {"commands": ["link set fab1 up", "link set fab0 mtu 1500"], "params": params},
    )
    assert absent == ["fabric_not_ready", "interface fab0 is not there"]
    assert configured_down == ["fabric_not_ready", "interface fab0 is down as configured"]
    assert up == ["ok", [{"name": "interface fab0", "ok": True, "detail": "up, MTU 9000"}]]
    assert no_carrier[0] == "fabric_not_ready"
    assert no_carrier[1].startswith("interface fab0 has no link, its state is ")
    assert small == ["fabric_not_ready", "interface fab0 has an MTU of 1500, at least 9000 is required"]
