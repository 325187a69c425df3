"""API-26: `hostler jobs exec` and `profile` find a job by its path, as every command of jobs does."""

import pytest
from click.testing import CliRunner

from hostler.cli.main import main
from support.jobs_api import JobsApi

IMAGE = f"docker.io/library/busybox@sha256:{'a' * 64}"


@pytest.mark.parametrize("named", ["/ann/hi", "op_1"])
@pytest.mark.parametrize(("command", "words"), [("exec", ["--", "id"]), ("profile", ["--seconds", "1"])])
def test_API_26_a_job_is_named_by_its_id_or_its_path(named: str, command: str, words: list[str]) -> None:
    with JobsApi() as api:
        server = ["--server", api.uri, "--project", "train", "jobs"]
        made = CliRunner().invoke(main, [*server, "run", "--detach", "--name", "hi", "--image", IMAGE, "--", "true"])
        assert made.output == "op_1\n"
        CliRunner().invoke(main, [*server, command, named, *words])  # the stand-in has no tasks to enter
    assert ("POST", f"/jobs/op_1/{command}") in api.called
