"""LC-07, LC-12: the program that a host installed anew is given, step by step; tests/real/test_reimage.py boots it."""

import hashlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.control.delivery import first_boot, host_files
from hostler.control.delivery.cloud_init import user_data
from hostler.control.delivery.contract import Host
from hostler.control.delivery.first_boot import AGAIN, NEVER, Facts
from hostler.control.delivery.settings import UpdateSettings
from support.certs import make_server_certs

PACKAGE = b"a package" * 1000
FILE = "hostler-agent_1.2.0-1~deb12u1_amd64.deb"
ENDED = {"error_code": "package_url_expired", "detail": "the address has ended"}


class Answers(http.server.ThreadingHTTPServer):
    """`status` and `body` of every answer; `length` is what it claims to be long."""

    status, body, length = 200, PACKAGE, len(PACKAGE)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("content-length", str(self.server.length))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[Answers]:
    server = Answers(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class Machine:
    """A host whose places are below one directory, and whose commands are noted."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.ran, self.installed = root, list[str](), ""
        self.program = root / "instance/boothooks/part-001"
        for name, place in (("CONFIG", "etc"), ("FOLDER", "cache"), ("IDENTITY", "identity/node.json")):
            monkeypatch.setattr(first_boot, name, root / place)
        monkeypatch.setattr(first_boot, "__file__", str(self.program))
        monkeypatch.setattr(first_boot, "_run", self._run)
        monkeypatch.setattr(first_boot, "_is_installed", lambda file: self.installed == file)
        monkeypatch.setattr(sys, "argv", ["part-001", "install"])

    def _run(self, *command: str) -> None:
        self.ran.append(command[0])
        if command[0] == "apt-get":
            assert Path(command[-1]).read_bytes() == PACKAGE
            self.installed = Path(command[-1]).name

    def boot(self, facts: Facts) -> int:
        """→ the exit code."""
        try:
            first_boot.main(facts)
        except SystemExit as err:
            return int(str(err.code))
        return 0

    def enrolled(self) -> None:
        (self.root / "identity").mkdir()
        (self.root / "identity/node.json").write_text("{}")

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_mode & 0o777 for path in (self.root / "etc").glob("*")}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def facts(answers: Answers, **changes: Any) -> Facts:
    files = [("agent.toml", "x = 1", 0o644), ("trust.json", "{}", 0o644), ("enrol.token", "secret", 0o600)]
    values: dict[str, Any] = {
        "run_id": "run_1",
        "url": f"http://127.0.0.1:{answers.server_port}/packages/v1/T/{FILE}",
        "sha256": hashlib.sha256(PACKAGE).hexdigest(),
        "size_bytes": len(PACKAGE),
        "file": FILE,
        "ca": "",
        "files": files,
    }
    return Facts(**(values | changes))


def test_LC_07_it_writes_installs_and_does_nothing_ever_after(machine: Machine, answers: Answers) -> None:
    assert machine.boot(facts(answers)) == 0
    assert machine.ran == ["dpkg", "apt-get"]
    assert machine.files() == {"agent.toml": 0o644, "trust.json": 0o644, "enrol.token": 0o600}
    assert not (machine.root / "cache").exists()
    machine.installed = "removed by its owner"
    assert machine.boot(facts(answers)) == 0
    assert machine.ran == ["dpkg", "apt-get"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"status": 410, "body": json.dumps(ENDED).encode()}, NEVER, "410 the address has ended [package_url_expired]"),
        ({"status": 404, "body": b"<html>"}, NEVER, "404"),
        ({"status": 503, "body": b""}, AGAIN, "503"),
        ({"status": 429, "body": b"[]"}, AGAIN, "429"),
        ({"body": PACKAGE[:-1] + b"!"}, NEVER, "is not the signed package"),
        ({"body": PACKAGE * 50}, NEVER, "is not the signed package"),
        ({"body": PACKAGE[:99]}, AGAIN, "cut off after 99 of 9000 bytes"),
        ({"body": PACKAGE[:99], "length": 9000}, AGAIN, "the package"),
    ],
)
def test_LC_12_what_is_not_the_signed_package_leaves_nothing_behind(
    machine: Machine, answers: Answers, capsys: pytest.CaptureFixture[str], answer: Any, status: int, words: str
) -> None:
    answers.length = len(answer.get("body", b""))
    for name, value in answer.items():
        setattr(answers, name, value)
    assert machine.boot(facts(answers)) == status
    said = capsys.readouterr().err
    assert words in said
    assert ("tried again in" in said) == (status == AGAIN)
    assert machine.ran == ["dpkg"]
    assert [path.name for path in machine.root.iterdir()] == []
    answers.status, answers.body, answers.length = 200, PACKAGE, len(PACKAGE)
    assert machine.boot(facts(answers)) == 0, "the next boot goes on"


def test_LC_12_no_more_is_taken_than_was_signed(
    machine: Machine, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def stopped(status: int, why: str) -> None:
        taken.append((machine.root / f"cache/{FILE}").stat().st_size)
        sys.exit(status)

    monkeypatch.setattr(first_boot, "_stop", stopped)
    monkeypatch.setattr(first_boot, "CHUNK", 1000)
    answers.body, answers.length = PACKAGE * 50, 50 * len(PACKAGE)
    machine.boot(facts(answers))
    assert taken[0] <= len(PACKAGE) + 1000


def test_nobody_there_is_asked_again(machine: Machine, answers: Answers) -> None:
    assert machine.boot(facts(answers, url="http://127.0.0.1:1/x.deb")) == AGAIN


def test_K7_a_power_cut_after_it_enrolled_does_not_bring_the_spent_token_back(
    machine: Machine, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*command: str) -> None:
        if command[0] == "apt-get":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(first_boot, "_run", cut)
        with pytest.raises(KeyboardInterrupt):
            machine.boot(facts(answers))
    (machine.root / "etc/enrol.token").unlink()
    machine.enrolled()
    assert machine.boot(facts(answers)) == 0
    assert "enrol.token" not in machine.files()
    assert "apt-get" in machine.ran


def test_LC_07_a_host_that_is_a_node_already_is_left_alone(
    machine: Machine, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.enrolled()
    assert machine.boot(facts(answers)) == NEVER
    assert "was not installed anew" in capsys.readouterr().err
    assert (machine.ran, machine.files()) == ([], {})


def test_cloud_init_only_has_systemd_begin_it_later(
    machine: Machine, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(sys, "argv", [str(machine.program)])
    monkeypatch.setattr(subprocess, "run", lambda command, **_: begun.append(command))
    assert machine.boot(facts(answers)) == 0
    ((program, *_, python, isolated, path, word),) = begun
    assert (program, python, isolated, path, word) == (
        "systemd-run", sys.executable, "-I", str(machine.program), "install",
    )  # fmt: skip
    assert "secret" not in str(begun)
    assert machine.files() == {}


def test_no_value_breaks_out_of_the_document(tmp_path: Path) -> None:
    evil = '"""\nimport os; os.mkdir("pwned")\n#'
    host = Host(
        run_id=evil, node_name=evil, agent_toml=evil, trust=evil, token=evil, url=evil, sha256=evil, size_bytes=1,
        file=evil, suite=evil, ca=evil,
    )  # fmt: skip
    document = tmp_path / "user-data"
    document.write_text(user_data(host) + "\nassert told['url'].startswith('\"\"\"')\n")
    again = "import sys; sys.argv = ['x']"  # the facts are read, and nothing is found of them on this machine
    code = document.read_text().replace("    main(Facts(**told))\n", f"    {again}\n")
    document.write_text(code)
    done = subprocess.run([sys.executable, "-I", str(document)], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()


def test_the_operators_own_settings_stand_with_those_of_the_host(tmp_path: Path) -> None:
    own, certs = tmp_path / "host.toml", make_server_certs(tmp_path / "tls")
    own.write_text('parallel_tasks = 4\n[containers]\nruntime = "process"\n')
    settings = UpdateSettings(host_toml_file=str(own), ca_file=str(certs.ca))
    found = host_files.agent_toml("c:1", "c:2", host_files.read(settings))
    assert found.index("parallel_tasks") < found.index("[containers]") < found.index("[control]")
    assert 'ca_file = "/etc/hostler/packages-ca.pem"' in found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("host_toml_file", "[control]\naddress = 'elsewhere:1'\n"),
        ("host_toml_file", "not TOML"),
        ("host_toml_file", None),
        ("ca_file", "no certificate"),
        ("ca_file", None),
    ],
)
def test_files_for_hosts_that_are_wrong_are_found_at_the_start(tmp_path: Path, name: str, content: str | None) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_text(content)
    with pytest.raises(HostlerError) as caught:
        host_files.read(UpdateSettings(**{name: str(path)}))
    assert caught.value.code == "invalid_config"
    assert name in caught.value.message
