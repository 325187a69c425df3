"""The floor: time, digests, configuration, log lines."""

import io
import json
import logging
import random
from pathlib import Path

import msgspec
import pytest

from hostler.base import logs
from hostler.base.clock import Deadline, full_jitter
from hostler.base.codes import CODES
from hostler.base.config import describe, load_config, read_toml
from hostler.base.digest import canonical_json
from hostler.base.errors import FAMILIES, HostlerError, error
from hostler.base.ids import is_name, new_id
from hostler.base.strict import decode_canonical


def test_RT_09_back_off_is_spread_over_the_whole_interval_also_past_the_cap() -> None:
    rng = random.Random(1)
    waits = [full_jitter(50, base_s=0.2, cap_s=30.0, rng=rng) for _ in range(1000)]
    assert max(waits) <= 30.0
    assert min(waits) < 1.0
    assert max(sum(start <= wait < start + 3 for wait in waits) for start in range(0, 30, 3)) < 150


def test_RT_09_back_off_grows_from_its_base() -> None:
    rng = random.Random(1)
    assert max(full_jitter(0, base_s=0.2, cap_s=30.0, rng=rng) for _ in range(100)) <= 0.2


def test_a_deadline_does_not_move_with_the_wall_clock() -> None:
    class Clock:
        wall, steady = 0, 0.0

        def now_ms(self) -> int:
            return self.wall

        def monotonic(self) -> float:
            return self.steady

    clock = Clock()
    deadline = Deadline.after(10, clock)
    clock.wall = 10**15
    assert deadline.remaining() == 10
    clock.steady = 11
    assert deadline.passed()


def test_ids_sort_by_time_and_differ() -> None:
    made = [new_id("op", moment) for moment in range(1_800_000_000_000, 1_800_000_000_100)]
    assert made == sorted(made)
    assert len({new_id("op", 1) for _ in range(100)}) == 100


@pytest.mark.parametrize("text", ["", "A", "a/b", "-a", "a-", "a" * 64, "é", "a b", "../a", "a\n"])
def test_J6_a_name_that_is_no_label_is_no_name(text: str) -> None:
    assert not is_name(text)
    assert is_name("gpu-1.rack_2")


@pytest.mark.parametrize(
    "data", [b'{"a":1,"a":2}', b'{"b":1,"a":2}', b'{"a": 1}', b'{"a":NaN}', b'{"a":1.0e0}', b'{"a":"\\u0061"}', b"[1,]"]
)
def test_T5_json_in_any_other_spelling_is_refused(data: bytes) -> None:
    with pytest.raises(HostlerError):
        decode_canonical(data, code="invalid_request", what="document")


def test_canonical_json_survives_its_own_round_trip() -> None:
    data = canonical_json({"b": [1, {"z": None, "a": "é"}], "a": True})
    assert canonical_json(decode_canonical(data, code="invalid_request", what="x")) == data


def test_every_code_makes_an_error_of_its_family_with_a_hint() -> None:
    for name, (family, meaning, hint, _) in CODES.items():
        made = error(name, "what happened")
        assert type(made) is FAMILIES[family]
        assert made.hint == hint
        assert meaning
        assert meaning[0].islower() or meaning.startswith("Hostler")
        assert not meaning.endswith(".")


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int = 1


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "x"
    inner: Inner = Inner()


def test_configuration_says_which_value_comes_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[inner]\nport = 2\n")
    described = list(describe(load_config(path, Config), read_toml(path)))
    assert described == [("name", "x", "default"), ("inner.port", 2, "file")]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name = ", "TOML"),
        ("[inner", "TOML"),
        ("nme = 'a'", "nme"),
        ("name = 1", "name"),
        ("[inner]\nport='a'", "inner/port"),
    ],
)
def test_a_broken_configuration_is_one_sentence_with_path_and_key(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(HostlerError) as caught:
        load_config(path, Config)
    assert caught.value.code == "invalid_config"
    assert str(path) in str(caught.value)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_configuration_that_anybody_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(HostlerError, match="anybody"):
        load_config(path, Config)


def test_a_log_line_is_json_with_the_error_s_code_and_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        logs.set_up("json", "info")
        try:
            try:
                raise OSError("disk on fire")
            except OSError as err:
                raise error("file_error", "it could not be read") from err
        except HostlerError as err:
            logs.get_logger("hostler.test").warning("file.failed", error=err, path="/x")
        logs.get_logger("hostler.test").debug("not.shown")
    finally:
        root.handlers[:] = before
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == 1
    assert (lines[0]["event"], lines[0]["error_code"], lines[0]["path"]) == ("file.failed", "file_error", "/x")
    assert lines[0]["causes"] == ["OSError: disk on fire"]
