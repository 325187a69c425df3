"""S3: an overlay that would weaken its parent is refused when it is written, and ignored when it is met."""

import sqlite3
from pathlib import Path

from support.plane import ORG, PROJECT, plane, prepare

TENANT = f"/api/v1/tenants/{ORG}/operation-policies/*"
OURS = f"/api/v1/projects/{PROJECT}/operation-policies/demo.write"
WIDE = '{"enabled":true,"max_concurrency":1000,"timeout_seconds":86400,"require_signature_verification":false}'


async def test_S3_an_overlay_put_into_the_store_behind_our_back_widens_nothing(tmp_path: Path) -> None:
    config = prepare(tmp_path)
    async with plane(tmp_path, config) as first:
        await first.publish()
        await first.enroll("gpu-1")
        tight = {"timeout_seconds": 30, "require_signature_verification": True, "max_concurrency": 2}
        await first.call("PUT", TENANT, json=tight)
        refused = await first.call("PUT", OURS, 422, json={"timeout_seconds": 31})
        assert (refused["error_code"], refused["pointer"]) == ("policy_weakens", "/timeout_seconds")
    with sqlite3.connect(config.store_path) as db:
        row = ("project", PROJECT, "demo.write", WIDE, 1, "nobody", 1)
        db.execute("INSERT INTO operation_policy_overrides VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    async with plane(tmp_path, config) as again:
        met = await again.call("GET", OURS)
        assert {key: met["effective"][key] for key in tight} == tight
        node = (await again.call("GET", f"/api/v1/projects/{PROJECT}/nodes"))["items"][0]
        body = {"operation_type": "demo.write", "version": "v1", "target_selector": {"nodes": [node["node_id"]]}}
        made = await again.call("POST", f"/api/v1/projects/{PROJECT}/operations", 202, json=body)
        operation = await again.operation(made["operation_id"])
        assert {key: operation["policy"][key] for key in tight} == tight
