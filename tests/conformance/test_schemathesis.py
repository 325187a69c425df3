"""The API held against its own description by schemathesis: generated requests, good and bad, on a real server.

What may not happen: a 5xx, an answer that is not described, a body that is not of its schema, a method that is not
taken and not refused with 405, a route that answers without a token.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import House, open_house

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("schemathesis")]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
    "allow_header_conformance",
)
EXAMPLES = 4  # for each route and phase; the coverage phase adds its own
STREAMS = "/events$"  # server-sent events never end by themselves


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        yield made


def test_schemathesis_finds_nothing(house: House, tmp_path: Path) -> None:
    token = (house.home / "admin.token").read_text().strip()
    config = tmp_path / "schemathesis.toml"
    config.write_text(f'headers = {{ Authorization = "Bearer {token}" }}\n')
    config.chmod(0o600)
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run",
        f"{house.ports.server}/openapi.json", "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing",
        "--max-examples", str(EXAMPLES), "--seed", "7", "--exclude-path-regex", STREAMS, "--no-color",
        "--generation-database", "none", "--request-timeout", "20", "--continue-on-failure",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
