"""CR-07, AR-09, X25: the credential types there are, what each may be asked for, and which URLs it opens."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.credentials import CREDENTIAL_TYPES, SignedUrl, intent_of, source_of

INTENTS = {
    "oci_pull": (
        {"registry": "https://r.example:5000", "repository": "team/model", "digest": "sha256:" + "a" * 64},
        "https://r.example:5000/v2/team/model/",
    ),
    "s3_read": (
        {"endpoint": "https://s3.example", "bucket": "models", "prefix": "llm/v1/"},
        "https://s3.example/models/llm/v1/",
    ),
    "gcs_read": ({"bucket": "models", "prefix": "llm/"}, "https://storage.googleapis.com/models/llm/"),
    "hf_token": ({"repository": "team/model"}, "https://huggingface.co/team/model/"),
    "cluster_join_token": ({"cluster": "east-1"}, ""),
    "https_signed_url": ({"url": "https://cdn.example/a/b.bin"}, "https://cdn.example/a/b.bin"),
}


def test_CR_07_the_types_are_these_and_no_others() -> None:
    assert set(CREDENTIAL_TYPES) == set(INTENTS)
    with pytest.raises(HostlerError) as refused:
        intent_of("aws_root", {})
    assert refused.value.code == "unknown_credential_type"


@pytest.mark.parametrize("name", INTENTS)
def test_CR_01_each_intent_says_what_it_opens_and_at_which_registry(name: str) -> None:
    value, source = INTENTS[name]
    assert source_of(intent_of(name, value)) == source
    for field in value:
        without = {key: each for key, each in value.items() if key != field}
        with pytest.raises(HostlerError):
            intent_of(name, without)
    with pytest.raises(HostlerError):
        intent_of(name, {**value, "more": "x"})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("oci_pull", {"registry": "http://r.example"}),
        ("oci_pull", {"registry": "https://user:pw@r.example"}),
        ("oci_pull", {"registry": "https://r.example/path"}),
        ("oci_pull", {"repository": "team/../other"}),
        ("oci_pull", {"repository": "team/model:push"}),
        ("oci_pull", {"repository": "*"}),
        ("oci_pull", {"digest": "latest"}),
        ("s3_read", {"prefix": "../other/"}),
        ("s3_read", {"prefix": "/abs"}),
        ("s3_read", {"prefix": "a/*"}),
        ("s3_read", {"bucket": "models/other"}),
        ("gcs_read", {"prefix": "a'||true||'"}),
        ("hf_token", {"repository": "team/model/../.."}),
        ("https_signed_url", {"url": "https://cdn.example/a?token=1"}),
        ("https_signed_url", {"url": "http://cdn.example/a"}),
        ("cluster_join_token", {"cluster": "East 1\n"}),
    ],
)
def test_an_intent_that_could_mean_more_than_it_says_is_refused(name: str, change: dict[str, str]) -> None:
    with pytest.raises(HostlerError):
        intent_of(name, INTENTS[name][0] | change)


def test_a_material_does_not_show_itself() -> None:
    made = SignedUrl(url="https://cdn.example/a?canary")
    assert "canary" not in f"{made!r} {made} {(made,)}"
    assert msgspec.json.decode(msgspec.json.encode(made), type=SignedUrl) == made
