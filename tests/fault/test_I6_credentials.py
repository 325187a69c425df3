"""I6: who asks for a credential amiss gets 403 or 422, a line in the audit, one more in the metric, and no more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import msgspec
import pytest

from hostler.control.credentials.files import ReadToken
from hostler.wire.report import StepStatus
from support import mints
from support.mints import INTENT, TOKEN, USE, Asker, asker, internal_client, metric, minting_plane, tls_of
from support.plane import Plane, operations

pytestmark = pytest.mark.timeout(60)
OTHER = {"endpoint": "https://hub.test", "repository": "team/other"}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with minting_plane(tmp_path) as made:
        await made.publish(mints.definition())
        yield made


@pytest.fixture
async def ask(plane: Plane) -> AsyncIterator[Asker]:
    async with asker(plane) as made:
        yield made


class Watched:
    """What a refusal must leave behind, and what not."""

    def __init__(self, plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plane, self.issued = plane, 0
        mint = ReadToken.mint

        async def counted(minter: ReadToken, ask: Any) -> Any:
            self.issued += 1
            return await mint(minter, ask)

        monkeypatch.setattr(ReadToken, "mint", counted)

    async def refused(self, code: str, times: int, all_so_far: list[str] | None = None) -> None:
        text = (await self.plane.http.get("/metrics")).text
        assert metric(text, "credential_mint_denied_total", reason=code) == times
        lines = [line for line in await self.audit() if line["result"] == "refused"]
        assert [line["error_code"] for line in lines] == (all_so_far or [code] * times)
        assert all(line["action"] == "credential.mint" and line["actor_kind"] == "node" for line in lines)
        assert self.issued == 0
        assert self.plane.rows("SELECT count(*) FROM credential_mints WHERE state = 'minted'") == [(0,)]

    async def audit(self) -> list[Any]:
        names = ("action", "actor_kind", "result", "error_code", "body")
        found = self.plane.rows(
            f"SELECT {', '.join(names)} FROM audit_logs WHERE action = 'credential.mint' ORDER BY id"
        )
        return [dict(zip(names, row, strict=True)) for row in found]


@pytest.fixture
def watched(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(plane, monkeypatch)


async def test_CR_01_CR_03_a_running_step_gets_its_credential_by_both_ways(ask: Asker, watched: Watched) -> None:
    request = ask.request()
    minted = await ask.rpc(ask.body(request))
    assert msgspec.json.decode(ask.opened(minted, request)) == {"token": TOKEN}
    request = ask.request()
    answer = await ask.post(ask.body(request))
    assert answer.status_code == 200, answer.text
    assert msgspec.json.decode(ask.opened(answer.content, request)) == {"token": TOKEN}
    assert TOKEN.encode() not in minted + answer.content
    rows = ask.plane.rows("SELECT state, minter, expires_at_ms FROM credential_mints")
    assert [row[:2] for row in rows] == [("minted", "hub")] * 2
    started = ask.plane.rows("SELECT started_at_ms FROM tasks")[0][0]
    assert all(row[2] <= started + 7200 * 1000 for row in rows)  # CR-03: never beyond the task's own deadline
    lines = await watched.audit()
    assert [line["result"] for line in lines] == ["accepted"] * 2
    assert TOKEN not in str(lines)  # CR-09


FIELDS = ("node_id", "task_id", "operation_id", "attempt_uid", "step_id", "credential_type", "intent", "public_key",
          "nonce", "signature")  # fmt: skip


async def test_I6_CR_01_each_field_missing_or_changed_after_it_was_signed(ask: Asker, watched: Watched) -> None:
    for name in FIELDS:
        body = ask.body(ask.request())
        del body[name]
        assert await ask.denied(body) == "invalid_request", name
    await watched.refused("invalid_request", 2 * len(FIELDS))
    for name in FIELDS[:-3]:
        body = ask.body(ask.request())
        body[name] = OTHER if name == "intent" else "s3_read" if name == "credential_type" else f"{body[name]}x"
        by_rpc = await ask.refused(body)
        assert by_rpc == ("mint_not_bound" if name == "node_id" else "mint_unsigned"), name
        answer = await ask.post(body)  # where the path says the task as well
        code = "mint_not_bound" if name in ("node_id", "task_id") else "mint_unsigned"
        assert (answer.status_code, answer.json()["error_code"]) == (403, code), name
    assert watched.issued == 0


BENT: dict[str, tuple[dict[str, Any], str]] = {
    "a task there is not": ({"task_id": "tsk_none"}, "mint_not_bound"),
    "another operation": ({"operation_id": "op_other"}, "mint_not_bound"),
    "another attempt": ({"attempt_uid": "att_other"}, "mint_not_bound"),
    "a step that mints nothing": ({"step_id": USE}, "mint_not_bound"),
    "a step there is not": ({"step_id": "none"}, "mint_not_bound"),
    "a wider scope": ({"intent": {"endpoint": "https://hub.test", "repository": "team"}}, "mint_scope_denied"),
    "another repository": ({"intent": OTHER}, "mint_scope_denied"),
    "another registry": ({"intent": {**INTENT, "endpoint": "https://evil.test"}}, "mint_scope_denied"),
    "another type": (
        {"credential_type": "gcs_read", "intent": {"bucket": "abc", "prefix": ""}},
        "mint_scope_denied",
    ),
    "another part": ({"part": "token"}, "mint_scope_denied"),
    "an unknown type": ({"credential_type": "root_password"}, "unknown_credential_type"),
    "an intent of no shape": ({"intent": {**INTENT, "more": "x"}}, "unknown_field"),
}


async def test_I6_CR_02_signed_by_the_node_itself_and_still_not_its_due(ask: Asker, watched: Watched) -> None:
    expected: list[str] = []
    for what, (changes, code) in BENT.items():
        assert await ask.refused(ask.body(ask.request(**changes))) == code, what
        expected.append(code)
        await watched.refused(code, expected.count(code), expected)


async def test_I6_another_node_s_task(plane: Plane, ask: Asker, watched: Watched) -> None:
    async with asker(plane) as other:
        for body in (
            other.body(other.request(task_id=ask.spec.task_id, operation_id=ask.spec.operation_id,
                                     attempt_uid=ask.spec.attempt_uid)),
            other.body(ask.request()),
            ask.body(ask.request()),
        ):  # fmt: skip
            assert await other.refused(body) == "mint_not_bound"
    await watched.refused("mint_not_bound", 3)


async def test_I6_a_finished_task(ask: Asker, watched: Watched) -> None:
    await ask.session.report(ask.node.finished(ask.spec))
    assert await ask.denied(ask.body(ask.request())) == "mint_not_bound"
    await watched.refused("mint_not_bound", 2)


async def test_I6_a_cancelled_task(ask: Asker, watched: Watched) -> None:
    await ask.plane.call("POST", f"{operations()}/{ask.spec.operation_id}/cancel", 202)
    assert await ask.denied(ask.body(ask.request())) == "mint_not_bound"
    await watched.refused("mint_not_bound", 2)


async def test_I6_a_step_that_has_ended_and_whose_users_have_too(ask: Asker, watched: Watched) -> None:
    await ask.begin(0, StepStatus.SUCCEEDED)
    await ask.begin(1, StepStatus.SUCCEEDED)
    assert await ask.refused(ask.body(ask.request())) == "mint_not_bound"
    await watched.refused("mint_not_bound", 1)


async def test_CR_05_a_step_that_has_ended_is_asked_for_again_while_another_needs_it(ask: Asker) -> None:
    await ask.begin(0, StepStatus.SUCCEEDED)
    await ask.begin(1)
    request = ask.request()
    assert ask.opened(await ask.rpc(ask.body(request)), request)


async def test_I6_a_revoked_node(ask: Asker, watched: Watched) -> None:
    await ask.plane.call("POST", f"/api/v1/admin/nodes/{ask.node.node_id}/revoke")
    assert await ask.refused(ask.body(ask.request())) == "revoked"
    answer = await ask.post(ask.body(ask.request()))
    assert (answer.status_code, answer.json()["error_code"]) == (403, "revoked")
    await watched.refused("revoked", 2)


async def test_I6_SE_04_the_network_process_has_the_node_s_key_and_still_cannot_ask(
    ask: Asker, watched: Watched
) -> None:
    assert await ask.denied(ask.body(ask.request(), signer=ask.node.signer)) == "mint_unsigned"
    await watched.refused("mint_unsigned", 2)


async def test_I6_the_same_request_twice(ask: Asker, watched: Watched) -> None:
    body = ask.body(ask.request())
    await ask.rpc(body)
    assert await ask.refused(body) == "mint_replayed"
    assert watched.issued == 1


async def test_CR_02_no_more_than_three_in_one_attempt(ask: Asker, watched: Watched) -> None:
    for _ in range(3):
        await ask.rpc(ask.body(ask.request()))
    assert await ask.refused(ask.body(ask.request())) == "mint_limit"
    assert watched.issued == 3


async def test_CR_02_a_task_that_is_cancelled_while_the_issuer_thinks_gets_nothing(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    mint = ReadToken.mint

    async def slow(minter: ReadToken, order: Any) -> Any:
        asked.set()
        await go.wait()
        return await mint(minter, order)

    monkeypatch.setattr(ReadToken, "mint", slow)
    asking = asyncio.ensure_future(ask.rpc(ask.body(ask.request())))
    await asked.wait()
    await ask.plane.call("POST", f"{operations()}/{ask.spec.operation_id}/cancel", 202)
    go.set()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asking
    assert dict(caught.value.trailing_metadata())["hostler-error-code"] == "mint_not_bound"
    assert ask.plane.rows("SELECT state FROM credential_mints") == [("asked",)]


async def test_AR_09_a_source_outside_the_definition_or_the_minter_s_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = mints.definition(artifacts={"allowed_sources": ["https://elsewhere.test/"]})
    async with minting_plane(tmp_path, mints.read_token(tmp_path, ("https://hub.test/team/other/",))) as plane:
        watched = Watched(plane, monkeypatch)
        await plane.publish(elsewhere)
        async with asker(plane) as ask:
            assert await ask.denied(ask.body(ask.request())) == "mint_scope_denied"
            await watched.refused("mint_scope_denied", 2)
        await plane.publish(mints.definition(version="v2"), elsewhere, version=2)
        node = await plane.enroll("gpu-9")
        async with node.session() as session:
            await plane.submit(node, operation_type="demo.mint", version="v2")
            (spec,) = await session.take()
            ask = Asker(plane, node, session, spec)
            await ask.begin()
            assert await ask.refused(ask.body(ask.request())) == "no_minter"
        assert [line["result"] for line in await watched.audit()] == ["refused"] * 3
        assert watched.issued == 0


# -- the endpoints themselves (API-16, API-17) -----------------------------------------------------


async def test_API_16_the_registry_s_path_issues_registry_credentials_alone(ask: Asker, watched: Watched) -> None:
    answer = await ask.post(ask.body(ask.request()), "registry-credential")
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
    await watched.refused("invalid_request", 1)


async def test_API_17_the_path_must_say_what_certificate_and_body_say(ask: Asker, watched: Watched) -> None:
    for changed in ({"node": "nod_other"}, {"task": "tsk_other"}):
        answer = await ask.post(ask.body(ask.request()), **changed)
        assert (answer.status_code, answer.json()["error_code"]) == (403, "mint_not_bound")
    await watched.refused("mint_not_bound", 2)


async def test_API_17_nobody_but_a_node_reaches_the_endpoints(ask: Asker) -> None:
    config, path = ask.plane.config, f"/internal/v1/nodes/{ask.node.node_id}/tasks/{ask.spec.task_id}/credentials/mint"
    assert (await ask.plane.http.post(path)).status_code == 404  # the admin API has no such path
    with pytest.raises(httpx.TransportError):
        async with internal_client(config, None) as nameless:
            await nameless.post(path, json={})
    context = tls_of(None, config)
    context.load_cert_chain(Path(config.keys_dir) / "server.pem", Path(config.keys_dir) / "server.key")
    with pytest.raises(httpx.TransportError):  # a certificate for servers is none for clients
        async with httpx.AsyncClient(verify=context, base_url=f"https://{config.internal_listen}") as control:
            await control.post(path, json={})
    async with internal_client(config, ask.node) as node:
        for other in ("/metrics", "/api/v1/whoami", "/health", f"{path}/", path.replace("/v1/", "/v2/")):
            assert (await node.get(other)).status_code == 404
            assert (await node.post(other)).status_code == 404


async def test_API_17_a_body_that_never_ends_is_cut_off(ask: Asker, watched: Watched) -> None:
    answer = await ask.post({"node_id": "x" * 100_000})
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
    await watched.refused("invalid_request", 1)
