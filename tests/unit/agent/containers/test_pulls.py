"""What engines say of a registry, told apart; the words are those of containerd 1.6 and Docker 20.10."""

import subprocess
import sys

import pytest

from hostler.agent.containers.pulls import by_digest, refused
from hostler.base.errors import HostlerError

NAME = f"localhost:5055/denied/403@sha256:{'0' * 64}"  # words in a name are no reason


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized", "source_denied"),
        ("pull access denied, repository does not exist or may require authorization", "source_denied"),
        ("server message: insufficient_scope: authorization failed", "source_denied"),
        ("unexpected status code [manifests sha256:0]: 403 Forbidden", "source_denied"),
        ("failed commit on ref: unexpected commit digest sha256:1, expected sha256:0", "digest_mismatch"),
        ("manifest verification failed for digest sha256:0", "digest_mismatch"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "source_unreachable"),
        ("x509: certificate signed by unknown authority", "source_unreachable"),
        ("unexpected status code 503 Service Unavailable", "source_unreachable"),
        ("not found", "image_missing"),
        ("manifest unknown: manifest unknown", "image_missing"),
    ],
)
def test_reasons_are_told_apart(said: str, code: str) -> None:
    failed = refused(NAME, f'failed to pull and unpack image "{NAME}": {said}')
    assert failed.code == code
    assert said[-20:] in str(failed)


def test_S1_no_signature_of_a_url_is_told() -> None:
    url = "https://store.example/blobs/sha256/ab?X-Amz-Credential=AKIA1&X-Amz-Signature=5ec7e7"
    said = f'failed to copy: httpReadSeeker: failed open: failed to do request: Get "{url}": dial tcp: i/o timeout'
    failed = refused(NAME, said)
    assert failed.code == "source_unreachable"
    assert "X-Amz" not in str(failed)
    assert 'ab?...": dial tcp: i/o timeout' in str(failed)


def test_what_is_said_is_bounded_and_keeps_its_end() -> None:
    failed = str(refused(NAME, "x" * 10_000 + " the cause"))
    assert len(failed) < 600
    assert failed.endswith("the cause")


@pytest.mark.parametrize(
    "name", ["x/y", "x/y:1", "x/y@sha256:00", f"x/y@sha256:{'0' * 64}\n", f"x@sha256:{'0' * 64}:1"]
)
def test_an_image_is_named_by_its_whole_digest(name: str) -> None:
    with pytest.raises(HostlerError) as failed:
        by_digest(name)
    assert failed.value.code == "digest_required"


def test_nothing_heavy_is_loaded_before_the_first_container() -> None:
    """An idle agent imports all of it, and neither gRPC, protobuf nor an HTTP client."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hostler.agent.containers import choose, containerd, docker, process\n"
        "made = [containerd.Containerd(Path('x'), Path('y'), Path('z')), docker.Docker(Path('x'), 'n')]\n"
        "print([name for name in ('grpc', 'google.protobuf', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
