"""J6: names, prefixes and sources match exactly: no case, wildcard, look-alike, `..` or end of line widens them."""

import re
import string
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.host.files import Files, components, within
from hostler.base.errors import HostlerError
from hostler.catalog.auto_executed import PLACES, auto_executed
from hostler.catalog.policy import covers
from hostler.control.api import bodies
from hostler.control.api.authz import MEMBER, TENANT, permit_project

# Little alphabets, so that names collide, nearly collide and lie below one another.
PART = st.text("aA.b*?ａа", min_size=1, max_size=3)
PATHS = st.lists(PART, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
NAMES = st.text("aA._-*%ａа \n", max_size=4)
# A name and one like it: the same, longer, shorter, in other letters, with what some matchers understand.
LIKE = (
    str, str.upper, lambda n: n + "a", lambda n: n[:-1], lambda n: n + "\n", lambda n: n + " ", lambda n: "*",
    lambda n: n[:1] + "*", lambda n: "..", lambda n: "", lambda n: n.replace("a", "а"), lambda n: f"{n}/..",
)  # fmt: skip
ALIKE = st.builds(lambda name, like: (name, like(name)), NAMES, st.sampled_from(LIKE))
ALIKE_PATHS = st.builds(
    lambda path, end: (path + end, path), PATHS, st.sampled_from(["", "a", "/a", "/", "*", "/*", "/..", ".", "\n"])
)
EVIL_NAMES = [
    "a\n",
    "A",
    "a/b",
    "..",
    ".",
    "",
    "a*",
    "a?",
    "ａ",
    "а",
    "a b",
    "a\0",
    "-a",
    "a-",
    "a" * 64,
    "a%00",
    "a\u200b",
    "a\r",
]


def code_of(check: Callable[[], None]) -> str:
    """The code of what it raises, or ""."""
    try:
        check()
    except HostlerError as err:
        return err.code
    return ""


def below(path: str, prefix: str) -> bool:
    """What is meant: the prefix's components are the path's first ones, letter by letter."""
    wanted = [part for part in prefix.split("/") if part]
    return path.split("/")[1:][: len(wanted)] == wanted


@example(("/aa", "/a"))
@example(("/a/../b", "/a"))
@example(("/a/./b", "/a"))
@given(ALIKE_PATHS | st.tuples(PATHS, PATHS))
def test_J6_a_write_prefix_admits_itself_and_what_lies_below_and_nothing_else(pair: tuple[str, str]) -> None:
    path, prefix = pair
    assert within(path, prefix) == below(path, prefix)
    assert within(path, f"{prefix}/") == below(path, prefix)
    allowed = (
        not any(part in ("", ".", "..") for part in path.split("/")[1:]) and path.isprintable() and below(path, prefix)
    )
    assert code_of(lambda: Files(Path("/x"), (prefix,)).may_write(path)) == ("" if allowed else "path_denied")
    if below(path, prefix):
        assert code_of(lambda: Files(Path("/x"), ("/",), (prefix,)).may_write(path)) == "path_denied"


@example(("/aa", "/a"))
@example(("/a/../b", "/a"))
@example(("/a/./b", "/a"))
@given(ALIKE_PATHS | st.tuples(PATHS, PATHS))
def test_J6_the_node_s_own_prefixes_mean_the_same(pair: tuple[str, str]) -> None:
    path, prefix = pair
    plain = not any(part in (".", "..") for part in path.split("/"))  # a '/' at the end changes nothing here
    assert passes(LocalAuthority(allow_paths=(prefix,), deny_paths=()), path) == (plain and below(path, prefix))
    assert passes(LocalAuthority(deny_paths=(prefix,)), path) == (plain and not below(path, prefix))


def passes(authority: LocalAuthority, path: str) -> bool:
    return code_of(lambda: authority.check_value("path", path)) == ""


@given(st.text(max_size=30))
def test_J6_whatever_is_accepted_as_a_path_names_one_file_below_the_root(text: str) -> None:
    try:
        parts = components(text)
    except HostlerError:
        return
    assert "/" + "/".join(parts) == text
    assert not set(parts) & {"", ".", ".."}
    assert text.isprintable()


SEGMENT = st.text("aAb.%2f-", min_size=1, max_size=4)
HOSTS = st.sampled_from(
    ["a.test", "A.test", "a.test.evil", "evil.a.test", "a.test:443", "a.test:444", "x@a.test", "a-test"]
)
URLS = st.builds(
    lambda scheme, host, parts: f"{scheme}://{host}" + "".join(f"/{part}" for part in parts),
    st.sampled_from(["https", "http"]),
    HOSTS,
    st.lists(SEGMENT, max_size=3),
)


@example("https://a.test", "https://a.test.evil")
@example("https://a.test/a", "https://a.test/b")
@given(URLS, URLS)
def test_J6_a_source_covers_what_has_its_scheme_host_port_and_first_segments(prefix: str, url: str) -> None:
    if covers(prefix, url):
        (scheme, host, path), (other_scheme, other_host, other_path) = split(prefix), split(url)
        assert (scheme, host) == (other_scheme, other_host)
        assert below(other_path or "/", path or "/")
        assert "@" not in url
        assert "%2e" not in url.lower()
        assert "%2f" not in url.lower()
        assert ".." not in url.split("/")
    if "@" not in url and "%" not in url and ".." not in url.split("/"):
        assert covers(url, url)


def split(url: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"(https?)://([^/]*)(/.*)?", url)
    assert match is not None
    port = {"https": ":443", "http": ":80"}[match[1]]
    return match[1], match[2].lower().removesuffix(port), match[3] or ""


@example(("A", "a"))
@given(ALIKE)
def test_J6_a_denied_operation_profile_kind_or_user_is_denied_by_its_very_name(pair: tuple[str, str]) -> None:
    name, other = pair
    authority = LocalAuthority(
        deny_operations=(other,), deny_step_kinds=(other,), deny_command_profiles=(other,), deny_users=(other,)
    )
    profile: Any = SimpleNamespace(id=name, run_as=name)
    same = name == other
    assert denied(lambda: authority.check_operation(name, "v1")) == same
    assert denied(lambda: authority.check_kind(name, None)) == same
    assert denied(lambda: authority.check_kind("k", profile)) == (same or other == "k")
    assert denied(lambda: authority.check_value("owner", name)) == (same and bool(name))


def denied(check: Callable[[], None]) -> bool:
    return code_of(check) == "local_policy_denied"


@example(("a", "A"), ("p", "q"))
@example(("a", "a"), ("pa", "p"))
@given(ALIKE, ALIKE)
def test_J6_a_principal_reaches_its_own_tenant_and_project_by_their_very_names(
    orgs: tuple[str, str], projects: tuple[str, str]
) -> None:
    (org, own_org), (project, own_project) = orgs, projects
    by_project = own_project == project != "" and org in ("", own_org)
    for role in (TENANT, MEMBER):
        principal: Any = SimpleNamespace(role=role, org_id=own_org, project_id=own_project, name="x")
        wanted = by_project or (role == TENANT and own_org == org != "")
        assert code_of(lambda who=principal: permit_project(who, org, project)) == ("" if wanted else "not_found")


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_J6_no_name_of_a_tenant_project_or_node_can_be_taken_for_another(name: str) -> None:
    whole = {"node_name": "a", "org_id": "a", "project_id": "a"}
    assert msgspec.convert(whole, bodies.EnrolmentToken).node_name == "a"
    for field in whole if name else ("node_name",):  # without an owner the node is the pool's, or the token is refused
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(whole | {field: name}, bodies.EnrolmentToken)
    if name:
        for field in ("org_id", "project_id"):
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert({"name": "p", "role": "tenant_admin", field: name}, bodies.NewPrincipal)


@given(st.text(string.printable, max_size=8))
def test_J6_an_accepted_name_is_lower_case_ascii_of_one_component(name: str) -> None:
    try:
        msgspec.convert(name, bodies.Name)
    except msgspec.ValidationError:
        return
    assert re.fullmatch(r"[a-z0-9._-]+", name, re.ASCII)
    assert name[0] not in ".-_"


@given(st.sampled_from(PLACES), st.text("abA./*", max_size=3))
def test_J6_a_place_where_files_run_by_themselves_ends_at_a_slash(place: str, more: str) -> None:
    path = place + more
    if not any(below(path, other) for other in PLACES):
        assert not auto_executed(path)
    if more == "" or more.startswith("/"):
        assert auto_executed(path)
