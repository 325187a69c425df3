"""RT-05, SK-02, OP-17: a killed pull goes on where it stood; a cancelled step leaves no process."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from support.blob_server import Blob, BlobServer, slowly
from support.certs import make_server_certs
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-rt05")]
SIZE = 192 * 1024 * 1024
SECONDS = 1000 + os.getpid() % 2000  # which no other run's command sleeps


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        yield made


def test_RT_05_SK_02_bytes_on_the_wire_after_a_kill_are_about_the_remainder(house: House, tmp_path: Path) -> None:
    data = (b"0123456789abcdef" * 65_536) * (SIZE // 1_048_576)
    with BlobServer(make_server_certs(tmp_path / "certs")) as source:
        source.blobs["/blob"] = Blob(data)
        source.faults += [slowly(1 << 20, 0.02)]  # so that a kill at three fifths is not one after the end
        house.configure("a", ca_file=Path(source.certs.ca))
        house.restart("a")
        inputs = {
            "url": source.url("/blob"),
            "sha256": sha256(data).hexdigest(),
            "path": "/srv/models/blob",
            "size_bytes": SIZE,
            "manifest_path": "/srv/models/STAGED.json",
        }
        operation_id = house.submit("model.artifact.stage@v1", inputs)
        models = house.home / "a" / "root" / "srv" / "models"
        house.until(lambda: _largest(models) > SIZE * 3 // 5)
        house.kill("a")
        assert not (models / "blob").exists()
        house.start("a")
        operation = house.finished(operation_id)
        assert operation["status"] == "succeeded", (operation["error_code"], house.logs())
        offsets = [asked.offset for asked in source.requests]
    assert offsets[0] == 0
    assert offsets[1] > SIZE // 4, "the transfer began again from nothing"
    assert sha256((models / "blob").read_bytes()).hexdigest() == inputs["sha256"]
    assert len(house.receipts(operation_id)) == 4


def _largest(directory: Path) -> int:
    return max((path.stat().st_size for path in directory.glob(".*")), default=0) if directory.exists() else 0


def sleepers() -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["/usr/bin/sleep", str(SECONDS)]]


def test_OP_17_EV_05_a_cancelled_step_s_process_is_gone_before_the_operation_is_canceled(house: House) -> None:
    house.configure("a")
    house.restart("a")
    operation_id = house.submit("node.smoke.sleep@v1", {"seconds": SECONDS})
    house.until(lambda: bool(sleepers()))
    house.client.call("POST", f"/api/v1/projects/test/operations/{operation_id}/cancel")
    operation = house.finished(operation_id)
    assert not sleepers()
    assert operation["status"] == "canceled"
    assert house.follow(operation_id)["operation.canceled"] == 1
    assert [receipt["status"] for receipt in house.receipts(operation_id)] == ["canceled"]


def test_OP_17_a_cancel_while_the_node_is_away_reaches_it_when_it_is_back(house: House) -> None:
    house.restart("a")
    operation_id = house.submit("node.smoke.sleep@v1", {"seconds": SECONDS})
    house.until(lambda: bool(sleepers()))
    house.kill("control")
    house.serve()
    house.client.call("POST", f"/api/v1/projects/test/operations/{operation_id}/cancel")
    assert house.finished(operation_id)["status"] == "canceled"
    assert not sleepers()


def test_RT_03_RT_04_a_retry_goes_on_from_the_first_failed_step(house: House) -> None:
    house.restart("a")
    target = house.home / "a" / "root" / "srv" / "wanted"
    checks = [{"type": "file", "path": "/srv/wanted", "min_bytes": 1}]
    operation_id = house.submit("runtime.readiness.verify@v1", {"checks": checks, "within_seconds": 0})
    assert house.finished(operation_id)["status"] == "failed"
    target.write_text("here")
    house.client.call("POST", f"/api/v1/projects/test/operations/{operation_id}/retry")
    house.until(lambda: house.operation(operation_id)["status"] == "succeeded")
    steps = house.operation(operation_id)["tasks"][0]["steps"]
    second = {step["step_id"]: step["status"] for step in steps if step["attempt_number"] == 2}
    assert second == {"kernel": "reused", "space": "reused", "ready": "succeeded"}
