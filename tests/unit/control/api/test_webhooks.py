"""Webhooks over HTTP: who may, what is shown once, and what is never there (EV-01..05, AZ-10, S2)."""

import base64
from pathlib import Path

import pytest

from support.http_api import api_in

PROJECT, ADMIN = "/api/v1/projects/train/webhooks", "/api/v1/admin/webhooks"
BODY = {"url": "https://hooks.example.com/a?b=c", "types": ["operation"]}


async def test_a_webhook_is_made_listed_tried_and_ended_and_its_secret_is_shown_once(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        owner = await api.client("project_admin")
        made = await owner.post(PROJECT, json=BODY)
        assert made.status_code == 201
        webhook_id, secret = made.json()["webhook_id"], made.json()["secret"]
        assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
        listed = await owner.get(PROJECT)
        (item,) = listed.json()["items"]
        assert (item["url"], item["types"], item["state"]) == (BODY["url"], ["operation"], "active")
        assert secret not in listed.text
        tried = await owner.post(f"{PROJECT}/{webhook_id}/test")
        assert tried.status_code == 202
        (event,) = [e for e in await api.fleet.events() if e.type == "webhook.test"]
        assert tried.json()["event_id"] == event.id
        assert (await owner.post(f"{PROJECT}/{webhook_id}/enable")).status_code == 200
        assert (await owner.delete(f"{PROJECT}/{webhook_id}")).status_code == 200
        assert (await owner.get(PROJECT)).json()["items"] == []
        assert (await owner.delete(f"{PROJECT}/{webhook_id}")).status_code == 404


async def test_AZ_10_S2_a_webhook_of_another_tenant_is_neither_seen_nor_ended(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.enroll("gpu-1")
        await api.fleet.enroll("gpu-2", org="rival", project="lab")
        owner, rival = await api.client("project_admin"), await api.client("project_admin", "rival", "lab")
        admin = await api.client("platform_admin")
        webhook_id = (await owner.post(PROJECT, json=BODY)).json()["webhook_id"]
        lab = PROJECT.replace("train", "lab")
        assert (await rival.get(lab)).json()["items"] == []
        for method, path in (
            ("DELETE", ""),
            ("POST", "/enable"),
            ("POST", "/test"),
            ("POST", "/resend"),
            ("GET", "/parked"),
        ):
            for base in (lab, PROJECT):
                assert (await rival.request(method, f"{base}/{webhook_id}{path}")).status_code == 404
        assert [i["webhook_id"] for i in (await admin.get(ADMIN)).json()["items"]] == [webhook_id]
        assert (await admin.delete(f"{ADMIN}/{webhook_id}")).status_code == 200


@pytest.mark.parametrize("url", ["http://hooks.example.com/", "https://169.254.169.254/", "https://[::1]/", "x"])
async def test_an_address_inside_is_refused_when_it_is_named(url: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        refused = await admin.post(ADMIN, json={"url": url})
        assert (refused.status_code, refused.json()["error_code"]) == (422, "webhook_url_denied")
        assert (await admin.get(ADMIN)).json()["items"] == []


async def test_a_project_that_is_nobody_s_yet_gets_no_webhook(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        refused = await admin.post(PROJECT, json=BODY)
        assert (refused.status_code, refused.json()["error_code"]) == (404, "not_found")


async def test_without_a_key_nothing_is_made(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        path = tmp_path / "webhook.key"
        path.write_bytes(b"not 32 bytes")
        path.chmod(0o600)
        admin = await api.client("platform_admin")
        refused = await admin.post(ADMIN, json=BODY)
        assert refused.json()["error_code"] == "invalid_config"
        assert (await admin.get(ADMIN)).json()["items"] == []
