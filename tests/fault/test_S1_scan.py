"""S1: the scan for secrets finds what is planted, in every form and place; otherwise its silence means nothing."""

import base64
import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import need_root
from support.canary import PIECE, Canary, Scan, below, spellings

FORMS = sorted(spellings(Canary.fresh("x").data))
# Keeps its input, spelled as it came, in memory that the process can write.
KEEPER = (
    "import sys; kept = bytearray(sys.stdin.buffer.read(int(sys.argv[1])));"
    " print(len(kept), flush=True); sys.stdin.read()"
)


@pytest.fixture
def canary() -> Canary:
    return Canary.fresh("planted")


def forms(scan: Scan) -> set[str]:
    return {hit.form.partition(": ")[2] for hit in scan.hits}


@pytest.mark.parametrize("form", FORMS)
def test_S1_every_form_is_found_in_a_file(tmp_path: Path, canary: Canary, form: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"\0before" + spellings(canary.data)[form] + b"after\xff")
    scan = Scan(Canary.fresh("other"), canary)
    scan.files(tmp_path)
    assert form in forms(scan)
    assert all(hit.form.startswith("planted") and str(tmp_path / "deep" / "file") in hit.where for hit in scan.hits)


@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("url", [False, True])
def test_S1_base64_is_found_wherever_the_secret_stands_in_what_was_encoded(
    canary: Canary, shift: int, url: bool
) -> None:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    for more in (b"", b"a", b"ab", b"and more"):
        scan = Scan(canary)
        scan._find("here", encode(b"xyz"[:shift] + canary.data + more))
        assert any(form.startswith("base64") for form in forms(scan))


@pytest.mark.parametrize("form", FORMS)
def test_S1_a_form_that_is_split_anywhere_is_found(canary: Canary, form: str) -> None:
    spelled = spellings(canary.data)[form]
    for at in range(1, len(spelled)):
        scan = Scan(canary)
        scan.text("the first half", spelled[:at])
        scan.text("the second half", spelled[at:])
        assert scan.hits, (form, at)


def test_S1_a_secret_across_the_scan_s_own_chunks_is_found(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support import canary as module

    monkeypatch.setattr(module, "_CHUNK", 4096 + 1)
    for before in range(4097 - PIECE - 4, 4097 + 4):
        (tmp_path / "file").write_bytes(b"." * before + canary.data[:PIECE] + b"." * 100)
        scan = Scan(canary)
        scan.files(tmp_path)
        assert scan.hits, before


def test_S1_names_arguments_environment_and_comm_are_found(tmp_path: Path, canary: Canary) -> None:
    text = canary.data.decode().replace("/", "_")
    (tmp_path / text).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ("d" + text)).mkdir()
    scan = Scan(canary)
    scan.files(tmp_path)
    assert len({hit.where for hit in scan.hits}) == 2
    where: set[str] = set()
    for arguments, environment in ([canary.data.decode()], {}), ([], {"X": canary.data.decode()}):
        with waiting(*arguments, env=environment) as process:
            scan = Scan(canary)
            scan.surroundings()
            where |= {hit.where.split()[0] for hit in scan.hits}
            assert {Path(hit.where.split()[0]).parts[2] for hit in scan.hits} == {str(process.pid)}
            assert scan.looked["cmdline"] > 1
    assert {Path(each).name for each in where} == {"cmdline", "environ"}


class waiting:
    """A process that waits for the end of the block."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        command = [sys.executable, "-I", "-c", "import sys; print(1, flush=True); sys.stdin.read()", *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=env, **pipes)  # type: ignore[call-overload]

    def __enter__(self) -> "subprocess.Popen[bytes]":
        self.process.stdout.readline()
        return self.process  # type: ignore[no-any-return]

    def __exit__(self, *_: object) -> None:
        self.process.communicate(b"")


@pytest.fixture
def keeper(canary: Canary) -> Iterator[subprocess.Popen[bytes]]:
    planted = b"\0\0".join(spellings(canary.data).values())
    command = [sys.executable, "-I", "-c", KEEPER, str(len(planted))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(planted)
        process.stdin.flush()
        assert int(process.stdout.readline()) == len(planted)
        yield process
        process.stdin.close()


def test_S1_every_form_is_found_in_the_memory_of_another_process(
    canary: Canary, keeper: subprocess.Popen[bytes]
) -> None:
    need_root()
    scan = Scan(canary)
    scan.memory(*below(keeper.pid))
    assert forms(scan) == set(FORMS)
    assert scan.looked["memory"] > 1_000_000
    assert not any(word in hit.where for hit in scan.hits for word in ("cmdline", "environ"))


def test_S1_a_memory_file_and_a_shared_map_are_found(canary: Canary) -> None:
    need_root()
    code = (
        "import sys\nfrom hostler.agent.secrets.secret import Secret\n"
        "one = Secret.read_from(0)\nprint(1, flush=True)\nimport time; time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(canary.data)
    process.stdin.close()
    assert process.stdout.readline()
    scan = Scan(canary)
    scan.memory(process.pid)
    assert any("hostler-secret" in hit.where for hit in scan.hits)
    assert all("hostler-secret" in hit.where for hit in scan.hits)  # and nowhere else
    process.kill()
    process.wait()
    process.stdout.close()


def test_S1_what_is_packed_is_unpacked(tmp_path: Path, canary: Canary) -> None:
    statement = json.dumps({"predicate": {"deep": base64.b64encode(canary.data).decode()}})
    envelope = json.dumps({"payload": base64.b64encode(statement.encode()).decode()})
    (tmp_path / "receipt.json").write_text(envelope)
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"..." + canary.data, 9))
    scan = Scan(canary)
    scan.files(tmp_path)
    assert {Path(hit.where.split(",")[0]).name for hit in scan.hits} == {"receipt.json", "log.gz"}


def test_S1_a_value_that_spans_pages_of_a_database_is_found(tmp_path: Path, canary: Canary) -> None:
    db = sqlite3.connect(tmp_path / "x.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t (a TEXT, b BLOB)")
    db.execute("INSERT INTO t VALUES (?, ?)", ("x" * 4090 + canary.data.decode(), b"y" * 9000 + canary.data))
    db.commit()
    scan, rows = Scan(canary), Scan(canary)
    scan.files(tmp_path)
    rows.database(tmp_path / "x.db")
    assert any("x.db-wal" in hit.where for hit in scan.hits)
    assert "plain" in forms(rows)
    assert rows.looked["rows"] == 1
    db.close()


def test_S1_a_stream_of_events_and_captured_output_are_found(canary: Canary) -> None:
    half = len(canary.data) // 2
    events = b"".join(
        b"id: %d\nevent: log.line\ndata: %s\n\n" % (n, json.dumps({"text": part.decode(errors="replace")}).encode())
        for n, part in enumerate((canary.data[:half], canary.data[half:]))
    )
    scan = Scan(canary)
    scan.text("the stream", events)
    assert scan.hits


def test_S1_a_clean_place_has_no_hit(tmp_path: Path, canary: Canary) -> None:
    (tmp_path / "random").write_bytes(Canary.fresh("other").data * 1000)
    scan = Scan(canary)
    scan.files(tmp_path)
    scan.surroundings()
    scan.text("text", canary.data[: PIECE - 1] + b"...")
    assert scan.hits == []
    assert scan.looked["files"] == 1
    left_out = Scan(Canary.of("there", (tmp_path / "random").read_bytes()[:30]))
    left_out.files(tmp_path, but=[tmp_path / "random"])
    assert left_out.hits == []
    left_out.files(tmp_path)
    assert left_out.hits
