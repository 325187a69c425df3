"""SE-02, DM-08: every route that changes something leaves a line that says who, where, what, and what it was before.

Generated from the route table: a route with an `action` and without a story in `support.audited` turns this red,
so that no new one can forget its line.
"""

import base64
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES
from support.audited import house, pool, versions, work
from support.audited.told import ADMIN, GONE, MADE, STORIES, WHY
from support.lending import NODES, place

TOLD_BY = (house, pool, versions, work)  # each tells its stories when it is imported

AUDITED = tuple(route for route in ROUTES if route.action)


def test_every_route_that_changes_something_has_an_action_and_a_story() -> None:
    assert {route.name for route in ROUTES if route.method != "GET" and not route.action} == set()
    assert {route.name for route in AUDITED} - set(STORIES) == set(), "say in support.audited how it succeeds"
    assert set(STORIES) - {route.name for route in AUDITED} == set()


@pytest.mark.parametrize("route", AUDITED, ids=lambda route: route.name)
async def test_SE_02_a_mutation_leaves_who_where_what_and_what_was_before(route: Route, tmp_path: Path) -> None:
    told = STORIES[route.name]
    async with place(tmp_path) as at:
        answer = await told.story(at)
        assert answer.is_success, answer.text
        assert answer.request.method == route.method
        listed = await at.admin.get(f"{ADMIN}/audit-logs", params={"action": route.action, "page_size": "1"})
        (line,) = listed.json()["items"]
    assert (line["actor"], line["actor_kind"], line["result"]) == ("platform-admin-all", "user", "accepted")
    assert line["scope"]
    assert line["resource_name"]
    before, after = line["before"], line["after"]
    assert (before is None, after is None) == (told.kind == MADE, told.kind == GONE), (before, after)
    assert before != after
    assert all(value is None or (isinstance(value, dict) and value) for value in (before, after))
    if before and after:
        assert [name for name in after if before.get(name) != after[name]], "it says what has changed"
    _no_secret(answer, line)


def _no_secret(answer: httpx.Response, line: Any) -> None:
    """What the answer alone may say: a token, a webhook's secret, the way into its receiver."""
    said = msgspec.json.encode(line).decode()
    document = answer.json().get("document") or {}
    document = document if "content" in document else {}  # user data of a host, not an operation's definition
    secrets = [str(answer.json()[name]) for name in ("token", "secret") if answer.json().get(name)]
    if "content" in document:
        secrets += re.findall("hst1_[A-Za-z0-9_-]+", _decoded(document["content"]))
        assert len(secrets) == 1
    for secret in ["secret-way", *secrets]:
        assert secret not in said
        assert sha256_hex(secret.encode()) not in said
        assert sha256_hex(secret.rpartition(".")[2].encode()) not in said


def _decoded(user_data: str) -> str:
    """What the program in it is told stands in base64."""
    return base64.b64decode(user_data.split('TOLD = """')[1].partition('"""')[0]).decode()


async def test_DM_08_a_refusal_changed_nothing_and_the_log_is_read_in_pages_newest_first(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        assert (await at.tenant.post(f"{NODES}/pool-0/revoke")).status_code == 403
        for _ in range(2):
            await at.admin.post(f"{NODES}/pool-0/quarantine", json=WHY)
            await at.admin.post(f"{NODES}/pool-0/clear", json=WHY)
        page = {"action": "node.clear", "page_size": "1"}
        newest = (await at.admin.get(f"{ADMIN}/audit-logs", params=page)).json()
        older = (await at.admin.get(f"{ADMIN}/audit-logs", params=page | {"cursor": newest["next_cursor"]})).json()
        assert older["items"][0]["id"] < newest["items"][0]["id"]
        assert older["next_cursor"] == ""
        (refusal,) = (await at.admin.get(f"{ADMIN}/audit-logs", params={"actor": "ann"})).json()["items"]
        assert (refusal["result"], refusal["error_code"]) == ("refused", "scope_denied")
        assert (refusal["before"], refusal["after"]) == (None, None)
        auditor = await at.api.client("auditor")
        assert (await auditor.get(f"{ADMIN}/audit-logs")).status_code == 200
        wrong = await at.admin.get(f"{ADMIN}/audit-logs", params={"cursor": "x!"})
        assert (wrong.status_code, wrong.json()["error_code"]) == (422, "invalid_cursor")
