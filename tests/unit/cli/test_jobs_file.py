"""YAML job files: strict, with file and line, and the words that people use for amounts (JB-02)."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.job import JobSpec
from hostler.catalog.params.container import Resources
from hostler.cli.jobs_file import constraint_of, read_jobs


def read(folder: Path, text: str) -> list[JobSpec]:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_jobs(path)


def test_people_s_words_are_the_job_s_fields(tmp_path: Path) -> None:
    (spec,) = read(
        tmp_path,
        "name: a\ncommand: [x, '${HOME}']\ntimeout: 2h\nscheduling_timeout: 90s\n"
        "resources: {cpu: 500m, memory: 4GiB, disk: 1G, shm: 1MiB, device: {kind: gpu, count: 2}}\n"
        "constraints: ['zone in a,b', {key: ssd, op: exists, prefer: true}]\n",
    )
    assert spec.command == ("x", "${HOME}")  # nothing is substituted
    assert (spec.timeout_seconds, spec.scheduling_timeout_seconds) == (7200, 90)
    resources = spec.resources
    assert (resources.cpu_millis, resources.memory_bytes, resources.disk_bytes) == (500, 4 << 30, 10**9)
    assert [(rule.key, rule.op, rule.values) for rule in spec.constraints] == [
        ("zone", "in", ("a", "b")),
        ("ssd", "exists", ()),
    ]


def test_the_fields_themselves_work_as_well(tmp_path: Path) -> None:
    (spec,) = read(tmp_path, "name: a\ncommand: [x]\nresources: {cpu_millis: 1, memory_bytes: 2}\ntimeout_seconds: 3\n")
    assert (spec.resources, spec.timeout_seconds) == (Resources(cpu_millis=1, memory_bytes=2), 3)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("name: a\ncommand: [x]\nimgae: y\n", 3, "imgae"),
        ("name: a\ncommand: [x]\nresources:\n  cpu: 1\n  memory: lots\n", 5, "lots"),
        ("name: a\ncommand: [x]\nresources:\n  cpu: 1\n  cpu_millis: 2\n", 4, "same thing"),
        ("name: a\ncommand: [x]\nresources:\n  gpus: 1\n", 4, "gpus"),
        ("name: a\ncommand: [x]\nconstraints:\n  - zone=a\n  - a b\n", 5, "no constraint"),
        ("name: a\ncommand: [x]\ntimeout: soon\n", 3, "soon"),
        ("name: a\ncommand: echo hi\n", 2, "list of arguments"),
        ("name: a/b\ncommand: [x]\n", 1, "name"),
        ("name: a\ncommand: [x]\nreplicas: 0\n", 3, "replicas"),
        ("name: a\ncommand: [x]\n---\nname: b\ncommand: [x]\nbundle: short\n", 6, "bundle"),
        ("name: a\n", 1, "command"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path: Path, text: str, line: int, word: str) -> None:
    with pytest.raises(HostlerError) as failed:
        read(tmp_path, text)
    assert failed.value.code == "invalid_definition"
    assert failed.value.message.startswith(f"{tmp_path}/job.yaml:{line}: ")
    assert word in failed.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n",
        "name: a\nname: b\ncommand: [x]\n",
        "name: &x a\ncommand: [*x]\n",
        "name: !!python/name:os.system a\n",
        "name: [\n",
        "name: a\ncommand: [x]\n---\nname: a\ncommand: [y]\n",
    ],
    ids=["empty", "list", "twice", "anchor", "tag", "broken", "one name twice"],
)
def test_what_is_no_strict_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(HostlerError) as failed:
        read(tmp_path, text)
    assert failed.value.code in ("invalid_yaml", "invalid_definition")


@pytest.mark.parametrize("text", ["", "=a", "a=", "a in ", "a in b,,c", "a b", "a b=c", "a not in"])
def test_what_is_no_constraint_is_said(text: str) -> None:
    with pytest.raises(HostlerError):
        constraint_of(text)
