"""AR-01: a tag anywhere in a profile is a finding; a digest is not, nor is other text with a colon."""

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.lint_tags import tags
from hostler.catalog.oci import names_a_tag, reference_of

PINNED = f"registry.example:5000/team/app@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    "text",
    [
        "registry.example/team/app:latest",
        "registry.example:5000/team/app:v1.2",
        "localhost/app:1",
        "docker://registry.example/a:b",
        f"registry.example/a:b@sha256:{'a' * 64}",
    ],
)
@pytest.mark.parametrize("place", ["input default", "argument", "variable", "param"])
def test_AR_01_a_tag_is_found_wherever_it_stands(text: str, place: str) -> None:
    document = {
        "input default": {"inputs": {"properties": {"x": {"default": text}}}},
        "argument": {"args": ["run", text]},
        "variable": {"env": {"IMAGE": text}},
        "param": {"steps": [{"params": {"deep": [{"any": text}]}}]},
    }[place]
    ((_, message),) = tags(document)
    assert text[:40] in message


@pytest.mark.parametrize("text", ["app", "app:latest", "team/app", "registry.example/app", "${inputs.x}:1", ""])
def test_AR_01_a_reference_has_to_be_whole(text: str) -> None:
    found = list(tags({"steps": [{"kind": "artifact.pull_oci", "params": {"reference": text}}]}))
    assert [at for at, _ in found] == ([] if "${" in text else ["/steps/0/params/reference"])


@pytest.mark.parametrize(
    "text", ["https://models.example.com/m.bin", "12:30", "a: b", "/srv/a:b", "${inputs.reference}"]
)
def test_other_text_is_left_alone(text: str) -> None:
    assert (
        list(tags({"steps": [{"params": {"url": text, "reference": PINNED}}], "description": "see r.example/a:b"}))
        == []
    )
    assert not names_a_tag(text)


def test_SK_01_a_reference_is_a_registry_a_repository_and_a_digest() -> None:
    found = reference_of(PINNED)
    assert (found.registry, found.repository) == ("registry.example:5000", "team/app")
    assert found.source == "https://registry.example:5000/v2/team/app/"
    for hostile in (
        PINNED.upper(),
        PINNED + "\n",
        f" {PINNED}",
        PINNED.replace("team", ".."),
        "r.example/" + "a/" * 500,
    ):
        with pytest.raises(HostlerError) as failed:
            reference_of(hostile)
        assert failed.value.code == "digest_required"
