"""PK-06, LC-09: a certificate is repaired alone: program, journal and what runs for a tenant are what they were."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.lifecycle import identity
from hostler.base.clock import SystemClock
from hostler.control.config import load
from hostler.control.keys import load_keys
from hostler.pki.authority import Authority
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-te20")]
HOUR_MS = 3_600_000
DEFINITION: dict[str, Any] = {
    "type": "job.plain",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"command": {}}},
    "capabilities": {"workload.runtimes": "process"},
    "steps": [
        {
            "id": "run",
            "kind": "container.run",
            "params": {"job": "/ann/train", "command": "${inputs.command}", "runtime": "process"},
            "reusable": False,
            "timeout_seconds": 600,
        }
    ],
}
SCRIPT = 'echo $$ >> "$0.pid"; while [ ! -e "$0.go" ]; do sleep 0.1; done'


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house([DEFINITION], []) as made:
        made.serve()
        made.enrol("a")
        yield made


def let_it_run_out(house: House, state: Path) -> str:
    """The node slept for days: its certificate is a past one. → its serial."""
    me = identity.load(state)
    keys = load_keys(load(house.home / "control.toml"))
    then = SystemClock().now_ms() - 25 * HOUR_MS
    chain = Authority(keys.ca, keys.ca_pem, me.facts.trust_domain).issue_node(me.node_id, me.signer.public, then)
    return identity.save(state, me.signer, chain, me.facts.org_id, me.facts.project_id).facts.serial


def test_PK_06_the_certificate_is_repaired_and_nothing_else_is_touched(house: House) -> None:
    state, place = house.home / "a/state", Path("/var/tmp") / f"{house.home.name}-pk06"
    pid, go = place.with_suffix(".pid"), place.with_suffix(".go")
    house.start("a")
    earlier = house.finished(house.submit("node.smoke.noop@v1", {}))
    operation_id = house.submit("job.plain@v1", {"command": ["/bin/sh", "-c", SCRIPT, str(place)]})
    try:
        house.until(pid.exists)
        key = (state / "identity/node.key").read_bytes()
        house.kill("a")
        old = let_it_run_out(house, state)
        house.start("a")  # comes back by its enrolled key, with no token and nobody's help
        house.until(lambda: identity.load(state).facts.serial != old)
        assert identity.load(state).facts.not_after_ms > SystemClock().now_ms()
        assert (state / "identity/node.key").read_bytes() == key
        assert Path(f"/proc/{pid.read_text().split()[0]}").exists(), "the workload lost its process"
        time.sleep(0.5)
        go.touch()
        assert house.finished(operation_id)["status"] == "succeeded", house.logs()
        assert len(pid.read_text().split()) == 1, "it was started again"
        assert house.operation(earlier["operation_id"])["status"] == "succeeded"
        assert house.receipts(earlier["operation_id"]), "one chain, from before and after"
        assert house.node("a")["drift"] == ""
    finally:
        for path in (pid, go):
            path.unlink(missing_ok=True)
        house.stop("a")
