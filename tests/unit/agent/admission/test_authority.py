"""AZ-09: what `[authority]` of agent.toml can forbid."""

from typing import Any

import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.kinds import KINDS
from hostler.catalog.params.file import Render


def code_of(authority: LocalAuthority, name: str, value: Any) -> str:
    try:
        authority.check_value(name, value)
    except HostlerError as err:
        return err.code
    return ""


@pytest.mark.parametrize(
    ("path", "denied"),
    [
        ("/srv/secret", True),
        ("/srv/secret/x", True),
        ("/srv/secrets", False),
        ("/srv/secret.txt", False),
        ("/srv", False),
        ("/etc/hostler/agent.toml", True),
    ],
)
def test_a_denied_prefix_covers_whole_components(path: str, denied: bool) -> None:
    authority = LocalAuthority(deny_paths=("/srv/secret/", "/etc/hostler"))
    assert code_of(authority, "path", path) == ("local_policy_denied" if denied else "")


def test_a_deny_inside_an_allowed_prefix_stays_denied() -> None:
    authority = LocalAuthority(allow_paths=("/srv",), deny_paths=("/srv/secret",))
    assert code_of(authority, "path", "/srv/x") == ""
    assert code_of(authority, "path", "/srv/secret/x") == "local_policy_denied"
    assert code_of(authority, "path", "/opt/x") == "local_policy_denied"
    assert code_of(LocalAuthority(allow_paths=()), "path", "/srv/x") == "local_policy_denied"


@pytest.mark.parametrize("path", ["/srv/../etc/hostler", "/srv/./x", "//etc/hostler/x", "/srv//x", "srv/x"])
def test_a_path_out_of_normal_form_is_denied_before_it_is_compared(path: str) -> None:
    assert code_of(LocalAuthority(), "path", path) == "path_denied"


@pytest.mark.parametrize(
    ("url", "denied"),
    [
        ("https://bad.example/x", True),
        ("https://bad.example:443/x", True),
        ("https://BAD.example/x", True),
        ("https://bad.example.org/x", False),
        ("https://user@bad.example/x", True),
        ("https://bad.example\\@good.example/", True),
        ("https://good.example/x", False),
    ],
)
def test_a_denied_source_is_denied_in_every_spelling(url: str, denied: bool) -> None:
    authority = LocalAuthority(deny_sources=("https://bad.example",))
    assert code_of(authority, "url", url) == ("local_policy_denied" if denied else "")


def test_an_allow_list_of_sources_admits_nothing_else() -> None:
    authority = LocalAuthority(allow_sources=("https://good.example/a",))
    assert code_of(authority, "url", "https://good.example/a/x") == ""
    assert code_of(authority, "url", "https://good.example/ab") == "local_policy_denied"


def test_no_message_shows_the_query_of_a_source() -> None:
    authority = LocalAuthority(deny_sources=("https://bad.example",))
    with pytest.raises(HostlerError) as caught:
        authority.check_value("url", "https://bad.example/x?sig=hush")
    assert "hush" not in str(caught.value)


def test_owner_and_group_are_users_too() -> None:
    authority = LocalAuthority(deny_users=("root",))
    render = Render(path="/srv/x", template="", owner="root")
    with pytest.raises(HostlerError) as caught:
        authority.check_step("file.render", render, None)
    assert caught.value.code == "local_policy_denied"
    assert "deny_users" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("identity.grant", {"users": [{"name": "ok"}, {"name": "boss"}]}),
        ("access.fence", {"users": ["ok", "boss"]}),
        ("device.sanitize", {"devices": [{"path": "/dev/sda"}]}),
    ],
)
def test_AZ_09_users_and_disks_that_a_step_lists_are_asked_about_too(kind: str, params: dict[str, Any]) -> None:
    typed = convert({"allocation_id": "al-1"} | params, KINDS[kind].params)
    LocalAuthority().check_step(kind, typed, None)
    with pytest.raises(HostlerError) as caught:
        LocalAuthority(deny_users=("boss",), deny_paths=("/dev/sda",)).check_step(kind, typed, None)
    assert caught.value.code == "local_policy_denied"
