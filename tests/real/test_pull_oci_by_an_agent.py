"""SK-01: a real agent process puts an image into a real containerd's store, by containerd's own client."""

from pathlib import Path

import pytest

from conftest import need, need_root
from hostler.catalog.definition import definition_from
from support.busybox import busybox_layer
from support.certs import ServerCerts, make_server_certs
from support.containerd import containerd
from support.house import open_house
from support.registry import registry

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), pytest.mark.xdist_group("containerd")]

PULL = {
    "type": "unit.pull",
    "version": "v1",
    "inputs": {
        "type": "object",
        "additionalProperties": False,
        "required": ["reference"],
        "properties": {"reference": {"type": "string", "maxLength": 600}},
    },
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "pull",
            "kind": "artifact.pull_oci",
            "params": {"reference": "${inputs.reference}", "place": "containerd"},
            "timeout_seconds": 60,
        }
    ],
}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> ServerCerts:
    return make_server_certs(tmp_path_factory.mktemp("certs"))


def test_SK_01_an_agent_puts_an_image_into_containerds_store(tmp_path: Path, certs: ServerCerts) -> None:
    need("containerd", "ctr", "docker-registry")
    need_root()
    with (
        containerd() as daemon,
        registry(tmp_path, certs) as held,
        open_house(definitions=[definition_from(PULL, "unit.pull@v1")]) as house,
    ):
        reference = f"{held.name}/team/a@{held.image('team/a', busybox_layer('x'))}"
        house.serve()
        house.enrol("a")
        house.configure("a", root="/", ca_file=held.certs.ca)
        toml = house.home / "a" / "agent.toml"
        toml.write_text(toml.read_text().replace("[fetch]\n", f'[fetch]\ncontainerd_socket = "{daemon.socket}"\n'))
        house.start("a")
        operation = house.finished(house.submit("unit.pull@v1", {"reference": reference}))
        assert operation["status"] == "succeeded", (operation, house.logs())
        assert reference.partition("@")[2] in daemon.ctr("images", "ls").stdout
