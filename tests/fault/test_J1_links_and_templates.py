"""J1: links, folders swapped while a file is written, ways around the root: nothing outside is touched."""

import contextlib
import ctypes
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.contract import StepContext
from hostler.agent.steps.file_render import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.file import Render
from support.house import House, open_house
from support.steps import Told, context_of

WRITES = 400
_AT_FDCWD, _EXCHANGE = -100, 2
PATH = {"type": "string", "pattern": "^/"}
WRITE = {
    "type": "unit.write",
    "version": "v1",
    "inputs": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"path": PATH, "text": {"type": "string"}},
    },
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "one",
            "kind": "file.render",
            "params": {
                "path": "${inputs.path}",
                "template": "{{ text }}",
                "variables": {"text": "${inputs.text}"},
                "make_parents": True,
            },
        }
    ],
}


def step(root: Path, path: str, text: str) -> StepContext:
    params = Render(path=path, template="{{ text }}", variables={"text": text}, make_parents=True)
    return context_of(params, Host(root=root), Told())


async def code_of(context: StepContext) -> str:
    try:
        await KIND.apply(context)
    except HostlerError as err:
        return err.code
    return ""


@contextlib.contextmanager
def swapping(one: Path, other: Path) -> Iterator[list[int]]:
    """Exchanges the two names as fast as it goes; gives how often."""
    libc, count, stop = ctypes.CDLL(None, use_errno=True), [0], threading.Event()

    def swap() -> None:
        while not stop.is_set():
            done = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
            assert done == 0, os.strerror(ctypes.get_errno())
            count[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("depth", ["the folder itself", "a folder above"])
async def test_J1_a_folder_swapped_for_a_link_thousands_of_times_never_leads_outside(
    tmp_path: Path, depth: str
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "srv/app/deep").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    (outside / "f").write_text("untouched")
    (outside / "deep/f").write_text("untouched")
    (root / "srv/link").symlink_to(outside)
    path = "/srv/app/f" if depth == "the folder itself" else "/srv/app/deep/f"
    codes: Counter[bool] = Counter()
    with swapping(root / "srv/app", root / "srv/link") as count:
        for number in range(WRITES):
            code = await code_of(step(root, path, f"text {number}"))
            assert code in ("", "path_denied", "file_error")  # what stood in the way is looked at after the swap
            codes[code != ""] += 1
    assert count[0] > 1000
    assert codes[False]
    assert codes[True]
    assert sorted(str(p.relative_to(outside)) for p in outside.rglob("*")) == ["deep", "deep/f", "f"]
    assert {(outside / name).read_text() for name in ("f", "deep/f")} == {"untouched"}


async def test_J1_a_target_swapped_for_a_link_thousands_of_times_is_replaced_never_followed(tmp_path: Path) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    (root / "srv").mkdir(parents=True)
    (root / "srv/f").write_text("old")
    victim.write_text("untouched")
    (root / "srv/link").symlink_to(victim)
    with swapping(root / "srv/f", root / "srv/link") as count:
        for number in range(WRITES):
            with contextlib.suppress(HostlerError):
                await KIND.apply(step(root, "/srv/f", f"text {number}"))
    assert count[0] > 1000
    assert victim.read_text() == "untouched"
    assert victim.stat().st_nlink == 1


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house([WRITE]) as made:
        made.serve()
        made.enrol("a")
        config = made.home / "a" / "agent.toml"
        config.write_text(config.read_text().replace("[files]\n", '[files]\nwrite_prefixes = ["/"]\n'))
        made.start("a")
        yield made


@pytest.mark.xdist_group("house-j1")
@pytest.mark.timeout(60)
def test_J1_through_the_whole_house_no_path_leads_outside_the_root(house: House) -> None:
    root, outside = house.home / "a" / "root", house.home / "outside"
    outside.mkdir()
    (outside / "f").write_text("untouched")
    (root / "srv/link").symlink_to(outside)
    (root / "srv/file").symlink_to(outside / "f")
    (root / "srv/up").symlink_to("../../../outside")
    (root / "srv/rooted").symlink_to("/proc/self/root")
    before = sorted(str(path) for path in house.home.rglob("*") if "/state" not in str(path) and path.suffix != ".log")
    refused = [
        "/srv/link/f", "/srv/link/new", "/srv/file", "/srv/up/f", "/srv/../../../outside/f", "/srv/./x", "//srv/x",
        f"/srv/rooted{outside}/f", "/srv/x/", "/", "/srv/\u202ex", "/srv/a\nb", f"/proc/self/root{outside}/f",
        f"/proc/self/cwd{outside}/f", f"/proc/1/root{outside}/f", "/dev/fd/3", "/srv/" + "x" * 5000,
    ]  # fmt: skip
    for path in refused:
        operation = house.finished(house.submit("unit.write@v1", {"path": path, "text": "x"}))
        assert operation["status"] == "failed", path
        receipts = house.receipts(operation["operation_id"])
        assert len(receipts) == 1
        assert receipts[0]["error_code"] in ("path_denied", "binding_error"), path[:100]
    for text in ("{{7*7}}", "{{ ''.__class__.__mro__ }}", "{% for x in [1] %}x{% endfor %}", "${inputs.path}", "$(id)"):
        operation = house.finished(house.submit("unit.write@v1", {"path": "/srv/data", "text": text}))
        assert operation["status"] == "succeeded", text
        assert (root / "srv/data").read_text() == text
    (root / "srv/data").unlink()
    assert (outside / "f").read_text() == "untouched"
    after = sorted(str(path) for path in house.home.rglob("*") if "/state" not in str(path) and path.suffix != ".log")
    assert [path for path in after if path not in before and "control/" not in path] == []
