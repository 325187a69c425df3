"""SE-02, DM-08: every route that changes something leaves a line that says who, where, what, and what it was before.

Generated from the route table: a route with an `action` and without a story here turns this red, so that no new one
can forget its line.
"""

import base64
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.catalog.manifest import write_bundle
from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES
from hostler.control.kernel.quarantine import BREAKER
from hostler.control.kernel.sessions import CLONED
from hostler.control.loops.checkpoints import CheckpointMaker
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.checkpoint import countersign, open_checkpoint
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import KeyRole, parse_keyset
from hostler.pki.rotation import grant, successor
from hostler.wire.report import TaskReport, TaskStatus
from support.builders import catalog_bundle, definition
from support.job_fleet import connect
from support.jobs import IMAGE, job_definitions
from support.keys import NOW
from support.ledger import Ledger
from support.lending import BASE, NODES, Place, place
from support.proxying import asked_through
from support.published import RELEASES, Repository, package_of, signed
from support.rolling import NEW, ROLLOUTS, SWIFT, Nodes

ADMIN = "/api/v1/admin"
OPERATIONS = "/api/v1/projects/train/operations"
JOBS = "/api/v1/projects/train/jobs"
CODE = f"/api/v1/projects/train/bundles/{sha256_hex(b'code')}"
DEMO = {"operation_type": "demo.write", "version": "v1", "inputs": {}}
WHY = {"reason": "a test"}
MADE, CHANGED, GONE = "made", "changed", "gone"
Story = Callable[[Place], Awaitable[httpx.Response]]


class Told(NamedTuple):
    """`story` ends with the one request that is looked at."""

    kind: str
    story: Story


STORIES: dict[str, Told] = {}


def story(kind: str, *routes: str) -> Callable[[Story], Story]:
    def kept(made: Story) -> Story:
        STORIES.update((route, Told(kind, made)) for route in routes)
        return made

    return kept


# -- operations -----------------------------------------------------------------------------------


@story(MADE, "operations.submit")
async def submitted(at: Place) -> httpx.Response:
    node = await at.fleet.node("gpu-1")
    body = DEMO | {"target_selector": {"nodes": [node.node_id]}, "idempotency_key": "one"}
    return await at.admin.post(OPERATIONS, json=body)


@story(CHANGED, "operations.cancel")
async def cancelled(at: Place) -> httpx.Response:
    operation_id = await at.fleet.submit(await at.fleet.node("gpu-1"))
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/cancel")


@story(CHANGED, "operations.retry")
async def retried(at: Place) -> httpx.Response:
    node = await at.fleet.node("gpu-1")
    operation_id = await at.fleet.submit(node)
    for spec in await at.fleet.take(node):
        await at.fleet.run(node, spec, fail_at=0)
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/retry")


async def _given_up(at: Place) -> str:
    """An operation whose node was there and never said what became of its task."""
    node = await at.fleet.node("gpu-1")
    operation_id = await at.fleet.submit(node)
    for spec in await at.fleet.take(node):
        await at.fleet.run(node, spec, fail_at=0, code="interrupted_apply")
    return operation_id


@story(MADE, "operations.probe")
async def work_probed(at: Place) -> httpx.Response:
    operation_id = await at.fleet.submit(await at.fleet.node("gpu-1"))
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/probe")


@story(CHANGED, "operations.recover")
async def work_recovered(at: Place) -> httpx.Response:
    return await at.admin.post(f"{OPERATIONS}/{await _given_up(at)}/recover")


# -- jobs, what runs inside them, and their code -------------------------------------------------


@story(MADE, "jobs.submit")
async def job_submitted(at: Place) -> httpx.Response:
    inside = [
        definition(type_=f"job.task.{name}", inputs={"type": "object"}) for name in ("exec", "forward", "profile")
    ]
    await at.fleet.publish(*job_definitions(), *inside, version=2)
    await connect(at.fleet, await at.fleet.enroll("gpu-1"))
    amounts = {"cpu_millis": 1000, "memory_bytes": 1 << 30}
    return await at.admin.post(JOBS, json={"name": "a", "image": IMAGE, "command": ["a"], "resources": amounts})


@story(CHANGED, "jobs.cancel")
async def job_canceled(at: Place) -> httpx.Response:
    job_id = (await job_submitted(at)).json()["job_id"]
    return await at.admin.post(f"{JOBS}/{job_id}/cancel")


async def _running_job(at: Place) -> str:
    job_id: str = (await job_submitted(at)).json()["job_id"]
    (node,) = [node for node in at.fleet.nodes.values() if node.name == "gpu-1"]
    (spec,) = await at.fleet.take(node)
    began = TaskReport(task_id=spec.task_id, attempt_uid=spec.attempt_uid, status=TaskStatus.RUNNING)
    await at.fleet.report(node, began)
    return job_id


@story(MADE, "exec.run")
async def entered(at: Place) -> httpx.Response:
    return await at.admin.post(f"{JOBS}/{await _running_job(at)}/exec", json={"command": ["ps"]})


@story(MADE, "exec.profile")
async def profiled(at: Place) -> httpx.Response:
    return await at.admin.post(f"{JOBS}/{await _running_job(at)}/profile", json={})


@story(MADE, "code_bundles.put")
async def code_sent(at: Place) -> httpx.Response:
    await at.fleet.node("gpu-1")  # whose project it becomes
    return await at.admin.put(CODE, content=b"code")


@story(GONE, "code_bundles.delete")
async def code_deleted(at: Place) -> httpx.Response:
    await code_sent(at)
    return await at.admin.delete(CODE)


# -- definitions, policies, trust -----------------------------------------------------------------


@story(CHANGED, "definitions.register")
async def registered(at: Place) -> httpx.Response:
    manifest, documents = catalog_bundle(at.fleet.keys, (definition(), definition(version="v2")), version=2)
    return await at.admin.post(f"{ADMIN}/operation-definitions", content=write_bundle(manifest, documents))


@story(CHANGED, "definitions.describe")
async def described(at: Place) -> httpx.Response:
    return await at.admin.patch(f"{ADMIN}/operation-definitions/demo.write@v1", json={"description": "other words"})


@story(CHANGED, "definitions.deprecate")
async def deprecated(at: Place) -> httpx.Response:
    return await at.admin.post(f"{ADMIN}/operation-definitions/demo.write@v1/deprecate")


@story(CHANGED, "definitions.retire")
async def retired(at: Place) -> httpx.Response:
    await deprecated(at)
    return await at.admin.post(f"{ADMIN}/operation-definitions/demo.write@v1/retire")


@story(MADE, "policies.put_global")
async def policy_global(at: Place) -> httpx.Response:
    return await at.admin.put(f"{ADMIN}/operation-policies/demo.write", json={"timeout_seconds": 9})


@story(MADE, "policies.put_tenant")
async def policy_tenant(at: Place) -> httpx.Response:
    return await at.admin.put("/api/v1/tenants/acme/operation-policies/demo.write", json={"timeout_seconds": 9})


@story(CHANGED, "policies.put_project")
async def policy_project(at: Place) -> httpx.Response:
    path = "/api/v1/projects/train/operation-policies/demo.write"
    await at.admin.put(path, json={"timeout_seconds": 9})
    return await at.admin.put(path, json={"timeout_seconds": 8})


async def _with_witness(at: Place, key: Any) -> httpx.Response:
    present = parse_keyset(dsse.from_json(at.fleet.engine.trust.state.keyset).payload)
    following = grant(successor(present, NOW), KeyRole.WITNESS, key.public)
    return await at.admin.post(f"{ADMIN}/trust/keyset", content=sign_keyset(following, [at.fleet.keys.root]))


@story(CHANGED, "trust.publish")
async def published(at: Place) -> httpx.Response:
    return await _with_witness(at, new_ed25519())


@story(MADE, "audit.countersign")
async def countersigned(at: Place) -> httpx.Response:
    witness = new_ed25519()
    assert (await _with_witness(at, witness)).status_code == 201
    node, ledger = await at.fleet.node("gpu-1"), Ledger()
    ledger.grow(node.node_id, 1)
    (receipt,) = ledger.chains[node.node_id]
    told = {"receipt": receipt, "receipt_digest": sha256_hex(receipt), "chain_index": 0}
    await at.fleet.report(node, TaskReport(task_id="", attempt_uid="", status=TaskStatus.REFUSED, **told))
    assert await CheckpointMaker(at.fleet.engine).make() == 0
    stored = await at.fleet.engine.reader.newest_checkpoint()
    assert stored is not None
    checkpoint = open_checkpoint(stored.envelope, [at.fleet.keys.dispatch.public])
    word = countersign(checkpoint, witness, NOW)
    return await at.admin.post(f"{ADMIN}/checkpoints/0/countersignatures", content=word)


# -- who there is ---------------------------------------------------------------------------------


async def _principal(at: Place) -> httpx.Response:
    body = {"name": "cleo", "role": "project_member", "org_id": "acme", "project_id": "train"}
    return await at.admin.post(f"{ADMIN}/principals", json=body)


story(MADE, "principals.create")(_principal)


@story(GONE, "principals.revoke")
async def principal_revoked(at: Place) -> httpx.Response:
    await _principal(at)
    return await at.admin.delete(f"{ADMIN}/principals/cleo")


@story(MADE, "nodes.create_token")
async def token_made(at: Place) -> httpx.Response:
    body = {"node_name": "gpu-9", "org_id": "acme", "project_id": "train"}
    return await at.admin.post(f"{ADMIN}/enrolment-tokens", json=body)


@story(CHANGED, "nodes.revoke")
async def node_revoked(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/revoke")


@story(CHANGED, "nodes.release")
async def node_released(at: Place) -> httpx.Response:
    _seen_twice(at)
    return await at.admin.post(f"{NODES}/{at.nodes[0].node_id}/release")


def _seen_twice(at: Place) -> None:
    at.fleet.engine._db.execute("UPDATE nodes SET hold = ?", (CLONED,))
    at.fleet.engine._view.forget()


# -- the pool -------------------------------------------------------------------------------------


@story(MADE, "allocations.create")
async def lent(at: Place) -> httpx.Response:
    return await at.admin.post(BASE, json={"org_id": "acme"})


@story(CHANGED, "allocations.release")
async def given_back(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await at.active()}/release")


async def _stuck(at: Place) -> str:
    allocation_id = await at.active()
    await at.admin.post(f"{BASE}/{allocation_id}/release")
    await at.work(fail="allocation.identity.revoke")
    return allocation_id


@story(CHANGED, "allocations.force_release")
async def forced(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await _stuck(at)}/force-release", json=WHY)


@story(CHANGED, "allocations.retry")
async def tried_again(at: Place) -> httpx.Response:
    return await at.admin.post(f"{BASE}/{await _stuck(at)}/retry")


@story(CHANGED, "node_policy.cordon")
async def cordoned(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/cordon", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.drain")
async def drained(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/drain", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.uncordon")
async def uncordoned(at: Place) -> httpx.Response:
    await drained(at)
    return await at.admin.post(f"{NODES}/pool-0/uncordon", json={"owner": "ops", **WHY})


@story(CHANGED, "node_policy.quarantine")
async def quarantined(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/quarantine", json=WHY)


@story(CHANGED, "node_policy.clear")
async def cleared(at: Place) -> httpx.Response:
    await quarantined(at)
    return await at.admin.post(f"{NODES}/pool-0/clear", json=WHY)


@story(MADE, "node_policy.probe")
async def probed(at: Place) -> httpx.Response:
    return await at.admin.post(f"{NODES}/pool-0/probe")


@story(CHANGED, "node_policy.recover")
async def recovered(at: Place) -> httpx.Response:
    _seen_twice(at)
    return await at.admin.post(f"{NODES}/pool-0/recover", json=WHY)


@story(CHANGED, "node_policy.close_breaker")
async def closed(at: Place) -> httpx.Response:
    at.fleet.engine._db.execute("INSERT INTO meta (name, value) VALUES (?, '1')", (BREAKER,))
    return await at.admin.post(f"{ADMIN}/quarantine/breaker/close", json=WHY)


# -- rollouts -------------------------------------------------------------------------------------


async def _rolling(at: Place) -> Nodes:
    nodes = Nodes(at.fleet)
    await nodes.prepare("eu", "us", catalog=2)
    return nodes


@story(MADE, "rollouts.create")
async def rollout_made(at: Place) -> httpx.Response:
    await _rolling(at)
    body = {"version": NEW, "labels": {"region": "eu"}, "settings": SWIFT}
    return await at.admin.post(ROLLOUTS, json=body)


async def _moved(at: Place, *actions: str) -> httpx.Response:
    """A rollout that has begun, and what is done to it then; the last is looked at."""
    path = f"{ROLLOUTS}/{(await rollout_made(at)).json()['rollout_id']}"
    for action in actions[:-1]:
        assert (await at.admin.post(f"{path}/{action}", json={})).is_success
    return await at.admin.post(f"{path}/{actions[-1]}", json=WHY)


@story(CHANGED, "rollouts.pause")
async def rollout_paused(at: Place) -> httpx.Response:
    return await _moved(at, "pause")


@story(CHANGED, "rollouts.resume")
async def rollout_resumed(at: Place) -> httpx.Response:
    return await _moved(at, "pause", "resume")


@story(CHANGED, "rollouts.abort")
async def rollout_aborted(at: Place) -> httpx.Response:
    return await _moved(at, "abort")


@story(CHANGED, "rollouts.rollback")
async def rollout_turned_back(at: Place) -> httpx.Response:
    return await _moved(at, "rollback")


@story(CHANGED, "rollouts.approve")
async def rollout_approved(at: Place) -> httpx.Response:
    nodes = await _rolling(at)
    body = {"version": NEW, "nodes": [node.name for node in nodes.nodes], "settings": SWIFT | {"approval": "each_wave"}}
    made = await at.admin.post(ROLLOUTS, json=body)
    await nodes.work()
    return await at.admin.post(f"{ROLLOUTS}/{made.json()['rollout_id']}/approve", json=WHY)


# -- webhooks -------------------------------------------------------------------------------------


def _webhook_stories(base: str, suffix: str) -> None:
    async def hook(at: Place) -> httpx.Response:
        if not at.fleet.engine._view.nodes_named("gpu-1"):
            await at.fleet.node("gpu-1")  # whose project it becomes
        return await at.admin.post(base, json={"url": "https://hooks.example.com/in/secret-way"})

    async def one(at: Place) -> str:
        return f"{base}/{(await hook(at)).json()['webhook_id']}"

    async def removed(at: Place) -> httpx.Response:
        return await at.admin.delete(await one(at))

    async def enabled(at: Place) -> httpx.Response:
        path = await one(at)
        at.fleet.engine._db.execute("UPDATE webhooks SET state = 'disabled'")
        at.fleet.engine._view.forget()
        return await at.admin.post(f"{path}/enable")

    async def tried(at: Place) -> httpx.Response:
        return await at.admin.post(f"{await one(at)}/test")

    async def resent(at: Place) -> httpx.Response:
        path = await one(at)
        parked = "INSERT INTO webhook_parked SELECT webhook_id, 1, 'operation.failed', 1, 'no', 'parked' FROM webhooks"
        at.fleet.engine._db.execute(parked)
        return await at.admin.post(f"{path}/resend")

    story(MADE, f"webhooks.create{'_for_all' if suffix else ''}")(hook)
    story(CHANGED, f"webhooks.resend{suffix}")(resent)
    story(GONE, f"webhooks.delete{suffix}")(removed)
    story(CHANGED, f"webhooks.enable{suffix}")(enabled)
    story(MADE, f"webhooks.test{suffix}")(tried)


_webhook_stories(f"{ADMIN}/webhooks", "_any")
_webhook_stories("/api/v1/projects/train/webhooks", "")


def _proxy_story(method: str) -> None:
    async def asked(at: Place) -> httpx.Response:
        return await asked_through(at.api, at.admin, method, await _running_job(at))

    story(MADE, f"endpoint_proxy.{method.lower()}")(asked)


for _method in ("POST", "PUT", "PATCH", "DELETE"):
    _proxy_story(_method)

# -- agents ---------------------------------------------------------------------------------------


def _repository(at: Place) -> Repository:
    assert at.fleet.keys.update is not None
    return Repository(at.fleet.keys.update)


@story(MADE, "agent_releases.publish")
async def releases_published(at: Place) -> httpx.Response:
    repository = _repository(at)
    await _package_sent(at, repository, len(repository.versions))
    return await at.admin.put(RELEASES, content=repository.document())


async def _package_sent(at: Place, repository: Repository, count: int) -> httpx.Response:
    await at.admin.put(RELEASES, content=repository.document())
    for version in repository.versions[:count]:
        path = f"{RELEASES}/packages/{signed(version).sha256}"
        answer = await at.admin.put(path, content=package_of(version))
    return answer


@story(MADE, "agent_releases.put_package")
async def package_sent(at: Place) -> httpx.Response:
    return await _package_sent(at, _repository(at), 1)


@story(MADE, "agents.start")
async def run_started(at: Place) -> httpx.Response:
    await releases_published(at)
    body = {"mode": "reimage", "scenario": "repair_reinstall", "target_version": "1.1.0"}
    return await at.admin.post(f"{NODES}/pool-0/agent-lifecycle", json=body)


@story(CHANGED, "agents.cancel")
async def run_canceled(at: Place) -> httpx.Response:
    run_id = (await run_started(at)).json()["run"]["run_id"]
    return await at.admin.post(f"{ADMIN}/agent-runs/{run_id}/cancel", json=WHY)


@story(CHANGED, "agents.set_channel")
async def channel_set(at: Place) -> httpx.Response:
    await releases_published(at)
    return await at.admin.put(f"{ADMIN}/agent-channels/stable", json={"version": "1.0.0"})


@story(CHANGED, "agents.follow")
async def node_pinned(at: Place) -> httpx.Response:
    await releases_published(at)
    return await at.admin.put(f"{NODES}/pool-0/agent-channel", json={"channel": "pinned", "version": "1.0.0"})


# -- what each must have left ---------------------------------------------------------------------

AUDITED = tuple(route for route in ROUTES if route.action)


def test_every_route_that_changes_something_has_an_action_and_a_story() -> None:
    assert {route.name for route in ROUTES if route.method != "GET" and not route.action} == set()
    assert {route.name for route in AUDITED} - set(STORIES) == set(), "say here how the new route succeeds"
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
