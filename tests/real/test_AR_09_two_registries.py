"""AR-09, CR-08: one operation, two registries, a credential of its own for each; neither is shown the other's."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.certs import make_server_certs
from support.house import House, open_house
from support.registry import Registry, TokenServer, registry

pytestmark = [pytest.mark.real, pytest.mark.timeout(90), pytest.mark.xdist_group("house-ar09")]
SIDES = ("east", "west")
TEXT = {"type": "string"}


def _mint(side: str, *users: str) -> dict[str, Any]:
    intent = {"registry": f"${{inputs.{side}}}", "repository": "team/a", "digest": f"${{inputs.{side}_digest}}"}
    params = {"credential_type": "oci_pull", "intent": intent, "for_steps": list(users)}
    return {"id": f"mint-{side}", "kind": "credential.mint", "params": params, "reusable": False}


def _pull(side: str, credential: str) -> dict[str, Any]:
    params = {
        "reference": f"${{inputs.{side}_reference}}",
        "path": f"/srv/{side}",
        "place": "files",
        "credential": f"${{steps.mint-{credential}.handle}}",
    }
    return {"id": f"pull-{side}", "kind": "artifact.pull_oci", "params": params}


def _definition(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    names = [f"{side}{what}" for side in SIDES for what in ("", "_digest", "_reference")]
    return {
        "type": f"unit.{name}",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(names, TEXT)},
        "capabilities": {"os.kernel": "linux"},
        "steps": steps,
    }


DEFINITIONS = [
    _definition(
        "both", _mint("east", "pull-east"), _mint("west", "pull-west"), _pull("east", "east"), _pull("west", "west")
    ),
    _definition("crossed", _mint("east", "pull-west"), _pull("west", "east")),
]


class Sides:
    """Two registries with token servers of their own, and a house that may mint for both."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.certs = make_server_certs(place / "certs")
        self.tokens: dict[str, TokenServer] = {}
        self.registries: dict[str, Registry] = {}
        self.inputs: dict[str, str] = {}
        for side in SIDES:
            (place / side).mkdir()
            server = TokenServer(self.certs, {side: f"password-of-{side}"})
            self.tokens[side] = stack.enter_context(server.running())
            made = self.registries[side] = stack.enter_context(registry(place / side, self.certs, self.tokens[side]))
            digest = made.bundle("team/a", {"side.txt": side.encode()})
            reference = f"{made.name}/team/a@{digest}"
            self.inputs |= {side: f"https://{made.name}", f"{side}_digest": digest, f"{side}_reference": reference}
        self.house: House = stack.enter_context(open_house(DEFINITIONS, minters=self.minters))
        self.house.serve()
        self.house.enrol("a")
        self.house.configure("a", ca_file=self.certs.ca)
        self.house.start("a")

    def minters(self, home: Path) -> str:
        text = ""
        for side in SIDES:
            secret = home / f"{side}.password"
            secret.touch(0o600)
            secret.write_text(f"password-of-{side}")
            text += (
                f'[[minters]]\nbackend = "registry_token"\nname = "{side}"\nsecret_file = "{secret}"\n'
                f'ca_file = "{self.certs.ca}"\ntoken_url = "{self.tokens[side].realm}"\nservice = "test"\n'
                f'username = "{side}"\n[[minters.scopes]]\norg = "test-org"\nproject = "test"\n'
                f'sources = ["https://{self.registries[side].name}/v2/team/"]\n'
            )
        return text


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with ExitStack() as stack:
        yield Sides(tmp_path_factory.mktemp("sides"), stack)


def test_AR_09_each_registry_is_asked_with_its_own_credential(sides: Sides) -> None:
    before = {side: len(sides.tokens[side].asked) for side in SIDES}
    ended = sides.house.finished(sides.house.submit("unit.both@v1", sides.inputs))
    assert ended["status"] == "succeeded", (ended["error_code"], ended["error_message"], sides.house.logs())
    for side in SIDES:
        assert (sides.house.home / f"a/root/srv/{side}/side.txt").read_text() == side
        (asked,) = sides.tokens[side].asked[before[side] :]  # by the minter alone, for this repository alone
        assert "scope=repository%3Ateam%2Fa%3Apull" in asked[0]


def test_AR_09_a_credential_of_one_registry_is_not_shown_to_another(sides: Sides) -> None:
    ended = sides.house.finished(sides.house.submit("unit.crossed@v1", sides.inputs))
    assert (ended["status"], ended["error_code"]) == ("failed", "credential_mismatch")
