"""AL-04, AL-05, AL-06, PF-08..11: a tenant comes and goes, link by link; the next one verifies offline."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import need_root
from hostler.pki.handover import verify_handover
from hostler.pki.trust_files import load_trust
from support.house import ORG, PROJECT, House, open_house
from support.tenancy import KEY, machine_root

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("house-handover")]

DEPROVISION, REVOKE = "allocation.runtime.deprovision@v1", "allocation.identity.revoke@v1"
VERIFY = "node.reclaim.verify@v1"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    need_root()
    with open_house() as made:
        made.serve()
        made.enrol("a")
        machine_root(made.home / "a" / "root")
        made.start("a")
        yield made


def provision(house: House, allocation: str, user: str) -> dict[str, Any]:
    inputs = {
        "allocation_id": allocation,
        "users": [{"name": user, "keys": [KEY]}],
        "owner": user,
        "scratch_path": f"/srv/scratch/{allocation}",
    }
    return run(house, "allocation.runtime.provision@v2", **inputs)


def run(house: House, ref: str, **inputs: Any) -> dict[str, Any]:
    return house.finished(house.submit(ref, inputs))


def test_AL_06_OD_17_a_forced_revoke_works_and_does_not_stand_for_a_link_of_the_chain(house: House) -> None:
    provision(house, "al-early", "early")
    early = run(house, VERIFY, allocation_id="al-early")
    assert (early["status"], early["error_code"]) == ("failed", "link_missing"), early
    assert run(house, REVOKE, allocation_id="al-early")["status"] == "succeeded", house.logs()
    assert "early:" not in (house.home / "a/root/etc/passwd").read_text()
    assert run(house, VERIFY, allocation_id="al-early")["error_code"] == "link_missing"
    assert run(house, DEPROVISION, allocation_id="al-early")["status"] == "succeeded", house.logs()
    late = run(house, VERIFY, allocation_id="al-early")
    assert (late["error_code"], "belongs before it" in late["error_message"]) == ("link_missing", True), late
    for ref in (DEPROVISION, REVOKE, VERIFY):
        assert run(house, ref, allocation_id="al-early")["status"] == "succeeded", house.logs()


def test_PF_11_a_tenant_leaves_and_the_next_one_verifies_the_node_offline(house: House, tmp_path: Path) -> None:
    root = house.home / "a" / "root"
    before = {path: (root / path).read_bytes() for path in ("etc/passwd", "etc/shadow", "etc/group")}
    assert provision(house, "al-1", "tenant")["status"] == "succeeded", house.logs()
    assert (root / "home/tenant/.ssh/authorized_keys").read_text() == f"{KEY}\n"
    (root / "srv/scratch/al-1/model.bin").write_bytes(b"weights")
    (root / "home/tenant/.token").write_text("secret")

    assert run(house, DEPROVISION, allocation_id="al-1")["status"] == "succeeded", house.logs()
    assert not (root / "home/tenant").exists()
    assert not (root / "srv/scratch/al-1").exists()
    assert run(house, REVOKE, allocation_id="al-1")["status"] == "succeeded", house.logs()
    assert {path: (root / path).read_bytes() for path in before} == before

    (root / "etc/cron.d").mkdir()
    (root / "etc/cron.d/come-back").write_text("* * * * * root /tmp/x\n")
    failed = run(house, VERIFY, allocation_id="al-1")
    assert (failed["status"], failed["error_code"]) == ("failed", "residue_found")
    assert "cron_job /etc/cron.d/come-back" in failed["error_message"]
    (root / "etc/cron.d/come-back").unlink()
    (root / "etc/cron.d").rmdir()

    done = run(house, VERIFY, allocation_id="al-1")
    assert done["status"] == "succeeded", done
    target = tmp_path / "handover.json"
    house.cli("audit", "handover", "export", "al-1", "-o", str(target))
    trust = house.home / "pki" / "trust.json"
    said = house.cli("audit", "handover", "verify", str(target), "--trust", str(trust))
    assert "is clean after al-1" in said
    report = verify_handover(target.read_bytes(), load_trust(trust))
    assert report.ok
    assert report.anchored
    kinds = [named.step_kind for named in report.certificate.receipts]
    assert kinds == [
        "access.fence", "workload.stop", "storage.release", "identity.revoke", "device.sanitize", "residue.check",
    ]  # fmt: skip
    forgeries(target.read_bytes(), trust)


def forgeries(good: bytes, trust: Path) -> None:
    """Whatever is bent, the hand-over no longer counts."""
    handover = msgspec.json.decode(good)
    (chain,) = handover["bundle"]["nodes"].values()
    receipts = chain["receipts"]

    def faults(**changes: Any) -> tuple[str, ...]:
        return verify_handover(msgspec.json.encode(handover | changes), load_trust(trust)).faults

    def with_receipts(kept: list[Any]) -> dict[str, Any]:
        nodes = {name: each | {"receipts": kept} for name, each in handover["bundle"]["nodes"].items()}
        return handover["bundle"] | {"nodes": nodes}

    def kind_of(receipt: Any) -> str:
        predicate = msgspec.json.decode(base64.b64decode(receipt["payload"]))["predicate"]
        return str(predicate.get("step_kind"))

    last_fence = max(place for place, receipt in enumerate(receipts) if kind_of(receipt) == "access.fence")
    without = receipts[:last_fence] + receipts[last_fence + 1 :]
    assert any("not in the node's chain" in fault for fault in faults(bundle=with_receipts(without)))
    assert any("no receipt says" in fault for fault in faults(bundle=with_receipts(receipts[:-1])))
    swapped = [*receipts[:-2], receipts[-1], receipts[-2]]
    assert faults(bundle=with_receipts(swapped))


def test_AL_06_a_certificate_of_another_allocation_does_not_borrow_its_links(house: House) -> None:
    provision(house, "al-2", "other")
    borrowed = run(house, VERIFY, allocation_id="al-2")
    assert borrowed["error_code"] == "link_missing"
    for ref in (DEPROVISION, REVOKE, VERIFY):
        assert run(house, ref, allocation_id="al-2")["status"] == "succeeded", house.logs()


def test_AL_01_02_AL_04_05_the_chain_of_a_lent_node_runs_by_itself_to_the_certificate(
    house: House, tmp_path: Path
) -> None:
    """The shipped profiles, a real agent, one request: nobody submits a link by hand."""
    house.enrol("p", pool=True)
    root = house.home / "p" / "root"
    machine_root(root)
    house.start("p")
    path = f"/api/v1/projects/{PROJECT}/allocations"
    inputs = {"users": [{"name": "guest", "keys": [KEY]}], "owner": "guest", "scratch_path": "/srv/scratch/guest"}
    body = {"profile": "allocation.runtime.provision@v2", "inputs": inputs, "org_id": ORG}
    allocation_id = house.client.call("POST", path, body=body)["allocation_id"]

    def state() -> str:
        return str(house.client.call("GET", f"{path}/{allocation_id}")["state"])

    house.until(lambda: state() == "active", "p")
    assert (root / "home/guest/.ssh/authorized_keys").read_text() == f"{KEY}\n"
    (root / "home/guest/left-behind").write_text("weights")
    house.cli("allocations", "release", allocation_id)
    house.until(lambda: state() == "released", "p")
    assert not (root / "home/guest").exists()
    shown = house.client.call("GET", f"{path}/{allocation_id}")
    links = [(link["link"], link["state"]) for node in shown["nodes"] for link in node["links"]]
    assert links == [
        ("provision", "succeeded"), ("deprovision", "succeeded"), ("identity_revoke", "succeeded"),
        ("reclaim_verify", "succeeded"),
    ]  # fmt: skip
    target = tmp_path / "lent.json"
    house.cli("audit", "handover", "export", allocation_id, "-o", str(target))
    trust = str(house.home / "pki" / "trust.json")
    assert f"is clean after {allocation_id}" in house.cli("audit", "handover", "verify", str(target), "--trust", trust)
