"""PF-06, CR-01, AR-03, SK-03: model.artifact.stage@v2 as it ships: minted, pulled, verified, noted; and cut off."""

import base64
import json
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hostler.pki.ceremony import load_signer
from support.certs import ServerCerts, make_server_certs
from support.house import House, open_house
from support.moto_s3 import moto_s3, put

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-pf06")]
MODEL = b"weights " * 40_000


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def store(certs: ServerCerts) -> Iterator[str]:
    with moto_s3(certs) as address:
        put(address, certs, "/models", b"")
        put(address, certs, "/models/llm/v1/model.bin", MODEL)
        yield address


@pytest.fixture(scope="module")
def house(store: str, certs: ServerCerts) -> Iterator[House]:
    def minters(home: Path) -> str:
        keys = home / "aws.json"
        keys.touch(0o600)
        keys.write_text('{"access_key_id": "AKIAOWNKEY", "secret_access_key": "own-secret-key"}')
        return (
            f'[[minters]]\nbackend = "aws_sts"\nname = "models"\nsecret_file = "{keys}"\nca_file = "{certs.ca}"\n'
            f'sts_url = "{store}/"\nregion = "us-east-1"\nrole_arn = "arn:aws:iam::123456789012:role/models"\n'
            f'[[minters.scopes]]\norg = "test-org"\nproject = "test"\nsources = ["{store}/models/llm/"]\n'
        )

    with open_house(minters=minters) as made:
        made.serve()
        made.enrol("a")
        made.configure("a", ca_file=certs.ca)
        made.start("a")
        yield made


def signed(house: House, store: str, certs: ServerCerts, name: str, content: bytes = MODEL) -> dict[str, Any]:
    """Inputs of the operation, with a signature of `content` in the store."""
    signature = base64.b64encode(load_signer(house.home / "pki/catalog/catalog.key").sign(content))
    put(store, certs, f"/models/llm/v1/{name}.sig", signature)
    return {
        "endpoint": store,
        "bucket": "models",
        "prefix": "llm/v1/",
        "key": "llm/v1/model.bin",
        "sha256": sha256(MODEL).hexdigest(),
        "signature_key": f"llm/v1/{name}.sig",
        "signature_sha256": sha256(signature).hexdigest(),
        "path": f"/srv/{name}/model.bin",
        "signature_path": f"/srv/{name}/model.sig",
        "manifest_path": f"/srv/{name}/STAGED.json",
    }


def stands(house: House, name: str) -> bool:
    folder = house.home / "a" / "root" / "srv" / name
    note = json.loads((folder / "STAGED.json").read_bytes())
    fits = note == {"path": f"/srv/{name}/model.bin", "sha256": sha256(MODEL).hexdigest(), "size_bytes": len(MODEL)}
    return fits and (folder / "model.bin").read_bytes() == MODEL


def test_PF_06_a_signed_artifact_is_staged_from_a_bucket(house: House, store: str, certs: ServerCerts) -> None:
    operation_id = house.submit("model.artifact.stage@v2", signed(house, store, certs, "whole"))
    ended = house.finished(operation_id)
    assert ended["status"] == "succeeded", (ended["error_code"], ended["error_message"], house.logs())
    assert stands(house, "whole")
    receipts = {receipt["step_id"]: receipt for receipt in house.receipts(operation_id)}
    assert list(receipts) == ["mint", "pull", "signature", "verify", "manifest", "ready"]
    assert [one["end"] for one in receipts["signature"]["secrets"]] == ["wiped"]  # CR-05: after the last step it is for
    assert "secrets" not in receipts["pull"]


def test_PF_06_RT_05_an_agent_that_is_killed_asks_for_the_credential_anew(
    house: House, store: str, certs: ServerCerts
) -> None:
    house.stop("a")
    house.configure("a", ca_file=certs.ca, fault_points=["after_intent:kill:artifact.pull_blob"])
    agent = house.start("a")
    operation_id = house.submit("model.artifact.stage@v2", signed(house, store, certs, "killed"))
    assert agent.wait(timeout=30) == -signal.SIGKILL, house.logs()
    house.run.forget("a")
    house.configure("a", ca_file=certs.ca)
    house.start("a")
    ended = house.finished(operation_id)
    assert ended["status"] == "succeeded", (ended["error_code"], ended["error_message"], house.logs())
    assert stands(house, "killed")
    assert house.follow(operation_id)["credential.minted"] == 2


def test_PF_06_SK_03_a_signature_of_something_else_ends_it(house: House, store: str, certs: ServerCerts) -> None:
    operation_id = house.submit("model.artifact.stage@v2", signed(house, store, certs, "foreign", b"something else"))
    ended = house.finished(operation_id)
    assert (ended["status"], ended["error_code"]) == ("failed", "signature_missing")
    assert not (house.home / "a/root/srv/foreign/STAGED.json").exists()


def test_PF_06_CR_02_a_prefix_outside_the_minter_s_scope_opens_nothing(
    house: House, store: str, certs: ServerCerts
) -> None:
    inputs = signed(house, store, certs, "wider") | {"prefix": ""}
    ended = house.finished(house.submit("model.artifact.stage@v2", inputs))
    assert (ended["status"], ended["error_code"]) == ("failed", "no_minter")
    assert not (house.home / "a/root/srv/wider").exists()
