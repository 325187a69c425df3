"""AZ-06, X24, AR-06: overlays only tighten, and a source is matched part by part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.catalog.policy import PolicyOverlay, allows_source, covers, merge, policy_digest
from hostler.wire.task import Policy

SOURCES = st.none() | st.lists(
    st.sampled_from(["https://a.test", "https://a.test/x", "https://a.test/x/y", "https://b.test"]), max_size=3
).map(tuple)
LIMIT = st.integers(0, 5)
OVERLAYS = st.builds(
    PolicyOverlay,
    enabled=st.none() | st.booleans(),
    max_concurrency=st.none() | LIMIT,
    timeout_seconds=st.none() | LIMIT,
    allowed_artifact_sources=SOURCES,
    allowed_target_kinds=st.none() | st.lists(st.sampled_from("abc"), max_size=3).map(tuple),
    require_signature_verification=st.none() | st.booleans(),
    max_artifact_size_bytes=st.none() | LIMIT,
)
URLS = ["https://a.test/x/y/z", "https://a.test/x", "https://a.test/q", "https://b.test/x", "https://c.test/"]


def within(child: int, parent: int) -> bool:
    return parent == 0 or 0 < child <= parent


@given(OVERLAYS, OVERLAYS)
def test_AZ_06_an_effective_policy_is_never_wider_than_its_parent(first: PolicyOverlay, second: PolicyOverlay) -> None:
    parent = merge(Policy(), first)
    child = merge(parent, second)
    assert parent.enabled or not child.enabled
    assert child.require_signature_verification or not parent.require_signature_verification
    for name in ("max_concurrency", "timeout_seconds", "max_artifact_size_bytes"):
        assert within(getattr(child, name), getattr(parent, name))
    for url in URLS:
        assert allows_source(parent, None, url) or not allows_source(child, None, url)
    if parent.allowed_target_kinds is not None:
        assert child.allowed_target_kinds is not None
        assert set(child.allowed_target_kinds) <= set(parent.allowed_target_kinds)


@given(OVERLAYS)
def test_an_empty_overlay_changes_nothing(overlay: PolicyOverlay) -> None:
    parent = merge(Policy(), overlay)
    assert policy_digest(merge(parent, PolicyOverlay())) == policy_digest(parent)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.test.evil/x",
        "https://models.test@evil/x",
        "https://somebody@models.test/pub/x",
        "http://models.test/x",
        "https://models.test:444/x",
        "https://models.test/pub/../secret",
        "https://models.test/pub/%2e%2e/secret",
        "https://models.test/pub%2fx",
        "https://models.test/public",
        "https://models.test\\@evil/pub/x",
        "https://MODELS.test.evil/pub/x",
        "https://[::1/pub/x",
        "https://модели.test/pub/x",
        "",
    ],
)
def test_AR_06_what_only_begins_like_the_prefix_is_not_covered(url: str) -> None:
    assert not covers("https://models.test/pub", url)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.test/pub",
        "https://models.test/pub/a/b",
        "https://models.test:443/pub/x",
        "https://MODELS.test/pub/x",
    ],
)
def test_AR_06_what_lies_below_the_prefix_is_covered(url: str) -> None:
    assert covers("https://models.test/pub", url)


def test_AR_06_policy_and_definition_must_both_allow() -> None:
    policy = Policy(allowed_artifact_sources=("https://a.test",))
    assert allows_source(policy, ("https://a.test/x",), "https://a.test/x/1")
    assert not allows_source(policy, ("https://b.test",), "https://b.test/1")
    assert not allows_source(Policy(allowed_artifact_sources=()), None, "https://a.test/1")
