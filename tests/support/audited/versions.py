"""How agents and their versions are changed, one by one and in rollouts."""

import httpx

from support.audited.told import ADMIN, CHANGED, MADE, WHY, story
from support.lending import NODES, Place
from support.published import RELEASES, Repository, package_of, signed
from support.rolling import NEW, ROLLOUTS, SWIFT, Nodes

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
    return await at.admin.post(f"{ROLLOUTS}/{made.json()['rollout_id']}/approve", json={"wave": 1, **WHY})
