"""The process around it: what it needs to start, how it stops, what it never does."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from hostler.base.errors import HostlerError
from hostler.cli.demo_files import program
from hostler.control import assembly
from hostler.control import config as config_module
from hostler.control.main import main
from hostler.control.service import open_engine, serve
from support.plane import first_admin, plane, prepare


def write(home: Path, **settings: object) -> Path:
    config = prepare(home)
    values = msgspec.to_builtins(config) | settings
    path = home / "control.toml"
    flat = {name: value for name, value in values.items() if value is not None and not isinstance(value, dict)}
    path.write_text("\n".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in flat.items()))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "missing", ["dispatch.key", "ca.key", "ca.pem", "server.key", "server.pem", "trust.json", "keyset.json"]
)
async def test_PK_11_P2_a_missing_key_file_stops_the_start_and_none_is_made(missing: str, tmp_path: Path) -> None:
    config = prepare(tmp_path)
    (config.keys / missing).unlink()
    with pytest.raises(HostlerError) as raised:
        await serve(config)
    assert raised.value.code == "invalid_config"
    assert missing in raised.value.message
    assert not (config.keys / missing).exists()


async def test_a_key_file_open_to_others_stops_the_start(tmp_path: Path) -> None:
    config = prepare(tmp_path)
    (config.keys / "dispatch.key").chmod(0o644)
    with pytest.raises(HostlerError, match=r"dispatch\.key"):
        await serve(config)


def test_plain_http_beyond_loopback_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostlerError) as raised:
        config_module.load(write(tmp_path, http_listen="0.0.0.0:7080"))
    assert raised.value.code == "invalid_config"
    assert "not loopback" in raised.value.message
    config_module.load(rewrite(tmp_path, http_listen="[::1]:7080"))


def rewrite(home: Path, **settings: object) -> Path:
    path = home / "control.toml"
    kept = [line for line in path.read_text().splitlines() if line.split(" ")[0] not in settings]
    kept += [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in settings.items()]
    path.write_text("\n".join(kept))
    return path


@pytest.mark.parametrize(
    "settings",
    [{"heartbeat": 5}, {"heartbeat_seconds": 0}, {"http_listen": "nowhere"}, {"log_level": "loud"}, {"cluster_id": 7}],
)
def test_a_wrong_configuration_names_its_key_and_exits_with_2(
    settings: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "--config", str(write(tmp_path, **settings))]) == 2
    said = capsys.readouterr().err
    assert next(iter(settings)) in said or "http_listen" in said
    assert "control.toml" in said


def test_config_shows_every_value_and_where_it_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "control.toml"
    path.write_text('cluster_id = "east"\n')
    assert main(["config", "--config", str(path)]) == 0
    shown = {line.split()[0].split(".")[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert set(shown) == set(config_module.ControlConfig.__struct_fields__)
    assert (shown["cluster_id"], shown["heartbeat_seconds"]) == ("file", "default")


async def test_a_second_process_cannot_open_the_store(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        with pytest.raises(HostlerError) as raised:
            await open_engine(control.config)
        assert raised.value.code == "store_unavailable"
        assert "HTTP API" in raised.value.hint


def test_principals_are_made_listed_and_revoked_before_the_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, token = str(write(tmp_path)), tmp_path / "token"
    assert main(["init", "--config", config]) == 0
    add = ["principals", "add", "root", "--config", config, "--role", "platform_admin", "--token-out"]
    assert main([*add, str(token)]) == 0
    assert token.stat().st_mode & 0o777 == 0o600
    assert main([*add, "-"]) == 1
    assert "principal_exists" in capsys.readouterr().err
    assert main(["principals", "list", "--config", config]) == 0
    assert capsys.readouterr().out.split()[:4] == ["root", "platform_admin", "everything", "active"]
    assert main(["principals", "revoke", "root", "--config", config]) == 0
    capsys.readouterr()
    assert main([*add, "-"]) == 0
    assert capsys.readouterr().out.startswith("hsb1_")


async def test_P3_when_a_loop_fails_the_service_ends_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(assembly.expire, "run", broken)
    async with asyncio.timeout(10):
        with pytest.raises(BaseExceptionGroup) as raised:
            await serve(prepare(tmp_path))
    assert raised.group_contains(ZeroDivisionError)


async def test_an_address_in_use_is_said_and_nothing_is_left_running(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with plane(tmp_path / "a") as control:
        for name in ("http_listen", "node_listen", "enroll_listen"):
            config = prepare(tmp_path / f"b/{name}", **{name: getattr(control.config, name)})
            async with asyncio.timeout(10):
                with pytest.raises((HostlerError, BaseExceptionGroup)) as raised:
                    await serve(config)
            found = raised.value.exceptions[0] if isinstance(raised.value, BaseExceptionGroup) else raised.value
            assert isinstance(found, HostlerError)
            assert found.code == "invalid_config"
            assert getattr(control.config, name) in found.message
        assert (await control.http.get("/health")).status_code == 200


def test_SIGTERM_ends_the_process_in_order_and_OP_13_it_holds_no_socket_it_dialled(tmp_path: Path) -> None:
    path = write(tmp_path)
    asyncio.run(first_admin(config_module.load(path)))
    process = subprocess.Popen([program("hostler-control"), "serve", "--config", str(path)], stderr=subprocess.PIPE)
    try:
        listening = set()
        while len(listening) < 3:
            assert process.poll() is None, process.stderr.read()
            connections = psutil.Process(process.pid).net_connections("inet")
            listening = {each.laddr for each in connections if each.status == psutil.CONN_LISTEN}
        assert all(each.status == psutil.CONN_LISTEN for each in connections)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom hostler.control import main\n"
        "try:\n  main.main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'grpc', 'uvicorn', 'starlette', 'sqlite3', 'cryptography'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
