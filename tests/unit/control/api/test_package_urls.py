"""LC-12, API-18: the address of a package is of one run, for one file, for a short while, and ends with its run."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_commands import CancelAgentRun
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.package_urls import check, mint
from support.control import ADMIN
from support.http_api import Api, api_in
from support.keys import NOW
from support.published import Repository, open_run, signed

SETTINGS = AgentSettings(public_url="https://cp.example", url_key=b"k" * 32, url_ttl_ms=1_500)
FILE = "hostler-agent_1.1.0-1~deb12u1_amd64.deb"


def token_of(url: str) -> str:
    return url.removeprefix("https://cp.example/packages/v1/").partition("/")[0]


def refused(token: str, file: str = FILE, now_ms: int = NOW, key: bytes = SETTINGS.url_key) -> str:
    with pytest.raises(HostlerError) as caught:
        check(key, token, file, now_ms)
    return caught.value.code


def test_LC_12_runs_of_one_moment_have_addresses_of_their_own() -> None:
    (one, ends), (other, _) = mint(SETTINGS, FILE, "run_a", NOW), mint(SETTINGS, FILE, "run_b", NOW)
    assert one != other
    assert ends == NOW + 1_500, "to the millisecond"
    assert one != mint(SETTINGS, FILE, "run_a", NOW + 1)[0]
    assert [check(SETTINGS.url_key, token_of(url), FILE, NOW) for url in (one, other)] == ["run_a", "run_b"]
    assert len(one) < 2048, "what a definition takes"


def test_LC_12_an_address_proves_its_run_its_file_and_its_end() -> None:
    token = token_of(mint(SETTINGS, FILE, "run_a", NOW)[0])
    run, _, proof = token.rpartition(".")
    later = token_of(mint(SETTINGS, FILE, "run_a", NOW + 9_000)[0]).rpartition(".")[2]
    assert check(SETTINGS.url_key, token, FILE, NOW + 1_499) == run == "run_a"
    assert refused(token, now_ms=NOW + 1_500) == "package_url_expired"
    assert refused(token, file=FILE.replace("1.1.0", "1.0.0")) == "not_found"
    assert refused(token, key=b"l" * 32) == "not_found"
    # another run's name, another moment's end, and what is none at all
    for wrong in (
        f"run_b.{proof}", f".{proof}", f"run_a.x.{proof}", f"{run}.{later[:8]}{proof[8:]}", f"{run}.{proof[:-4]}",
        proof, run, "", ".", f"{run}.{'=' * 36}", f"{'r' * 4000}.{proof}", f"rün_a.{proof}", f"run_a\0.{proof}",
    ):  # fmt: skip
        assert refused(wrong) == "not_found", wrong


async def get(api: Api, url: str) -> tuple[int, str]:
    answer = await api.bearer("").get(url)
    return answer.status_code, answer.json()["error_code"] if answer.is_error else ""


async def test_LC_12_an_address_ends_with_its_run_and_no_other_does(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        assert api.fleet.keys.update is not None
        await Repository(api.fleet.keys.update).publish(await api.client("platform_admin"))
        settings, file = api.fleet.engine.agents, signed("1.1.0").file
        runs = [await open_run(api, "1.1.0") for _ in range(2)]
        one, other = (mint(settings, file, run, api.fleet.clock.now)[0] for run in runs)
        assert [await get(api, url) for url in (one, other)] == [(200, ""), (200, "")]
        await api.fleet.execute(CancelAgentRun(actor=ADMIN, run_id=runs[0], reason="", correlation_id="c"))
        assert await get(api, one) == (410, "package_url_expired")
        assert await get(api, other) == (200, "")
        stray, _ = mint(settings, file, "run_none", api.fleet.clock.now)
        assert await get(api, stray) == (410, "package_url_expired")


async def test_API_18_who_fetches_is_known_by_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with api_in(tmp_path) as api:
        assert api.fleet.keys.update is not None
        await Repository(api.fleet.keys.update).publish(await api.client("platform_admin"))
        run_id, file = await open_run(api, "1.1.0"), signed("1.1.0").file
        run = await api.fleet.engine.reader.agents.run(run_id)
        assert run is not None
        with caplog.at_level("INFO"):
            await get(api, mint(api.fleet.engine.agents, file, run_id, api.fleet.clock.now)[0])
        (said,) = [str(record.__dict__) for record in caplog.records if record.getMessage() == "package.sent"]
        assert [word for word in (run_id, run.node_id, file) if word not in said] == []
