"""JB-01, TE-16: the first part of a job's path is one user's and nobody else's."""

import msgspec

from hostler.catalog.job import JobSpec, container_inputs, path_of, root_of, user_part
from hostler.catalog.params.container import ContainerRun

ALIKE = (
    "a@x", "a-x", "a.x", "a.x.", "A-x",
    "ä", "ö", "", "nobody", "user", "a" * 63, "a" * 64, "a" * 70, "a/x", "-a", "a\n",
)  # fmt: skip


def test_JB_01_a_plain_name_is_kept() -> None:
    assert path_of("ann", "train") == "/ann/train"
    assert path_of("ann", "eval", "/ann/train") == "/ann/train/eval"


def test_TE_16_no_two_users_share_a_namespace() -> None:
    users = {*ALIKE, *(user_part(user) for user in ALIKE)}  # also those who call themselves what another is called
    assert len({user_part(user) for user in users}) == len(users)


def test_every_users_path_is_one_that_a_node_takes() -> None:
    for user in ALIKE:
        path = path_of(user, "train")
        spec = JobSpec(name="train", command=("true",))
        said = container_inputs(spec, path, "", root_of(path))
        assert msgspec.convert(said, ContainerRun).job == path
