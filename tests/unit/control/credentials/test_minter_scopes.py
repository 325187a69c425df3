"""CR-02, AR-09: which minter answers for what, and for whom."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog import credentials as types
from hostler.control.credentials import config
from hostler.control.credentials.registry import Minters
from support.issuers import ask, private


def hub(home: Path, name: str, secret: str, *scopes: config.Scope) -> config.ReadTokenConfig:
    return config.ReadTokenConfig(name=name, secret_file=private(home / name, secret), scopes=scopes)


def scope(org: str, project: str, source: str) -> config.Scope:
    return config.Scope(org=org, project=project, sources=(source,))


async def test_AR_09_two_hubs_with_separate_credentials(tmp_path: Path) -> None:
    minters = Minters(
        [
            hub(tmp_path, "one", "token-one", scope("acme", "train", "https://huggingface.co/team/")),
            hub(tmp_path, "two", "token-two", scope("*", "*", "https://hub.test/")),
        ]
    )
    first = await minters.for_(ask("hf_token")).mint(ask("hf_token"))
    other = ask("hf_token", intent={"endpoint": "https://hub.test"})
    second = await minters.for_(other).mint(other)
    assert [made.material for made in (first, second)] == [
        types.HfToken(token="token-one"),
        types.HfToken(token="token-two"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"org_id": "other"},
        {"project_id": "other"},
        {"intent": {"repository": "team2/model"}},
        {"intent": {"endpoint": "https://huggingface.co.evil.test"}},
    ],
)
def test_CR_02_a_scope_ends_where_it_says(tmp_path: Path, changes: dict[str, Any]) -> None:
    minters = Minters([hub(tmp_path, "one", "x", scope("acme", "train", "https://huggingface.co/team/"))])
    assert minters.for_(ask("hf_token")).name == "one"
    with pytest.raises(HostlerError) as caught:
        minters.for_(ask("hf_token", **changes))
    assert caught.value.code == "no_minter"


def test_a_cluster_s_minter_is_for_that_cluster(tmp_path: Path) -> None:
    both = config.Scope(org="*", project="*", clusters=("east", "west"))
    ray = config.RayTokenConfig(
        name="ray", secret_file=private(tmp_path / "ray", "x"), scopes=(both,), cluster_name="west", address="h:1"
    )
    minters = Minters([ray])
    assert minters.for_(ask("cluster_join_token", intent={"cluster": "west"})).name == "ray"
    with pytest.raises(HostlerError):
        minters.for_(ask("cluster_join_token"))


def test_a_secret_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    wanted = hub(tmp_path, "one", "x")
    Path(wanted.secret_file).chmod(0o640)
    with pytest.raises(HostlerError) as caught:
        Minters([wanted])
    assert caught.value.code == "invalid_config"
    Path(wanted.secret_file).chmod(0o600)
    with pytest.raises(HostlerError, match="two minters"):
        Minters([wanted, wanted])


@pytest.mark.parametrize(
    "change",
    [{"backend": "shell"}, {"type": "hf_token"}, {"scopes": [{"org": "a"}]}, {"secret_file": ""},
     {"scopes": [{"org": "a", "project": "b", "sources": ["http://x"]}]}],
)  # fmt: skip
def test_a_minter_is_configured_strictly(change: dict[str, Any]) -> None:
    good = {
        "backend": "read_token",
        "name": "hub",
        "secret_file": "/s",
        "scopes": [{"org": "a", "project": "b", "sources": ["https://x/"]}],
    }
    assert msgspec.convert(good, config.MinterConfig).TYPE == "hf_token"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | change, config.MinterConfig)
