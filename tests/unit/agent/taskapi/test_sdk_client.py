"""Both sides of the contract speak to each other: the SDK's client and the agent's server."""

import asyncio

import pytest

from hostler.sdk import ApiError, ControllerUnreachable, SdkError, TaskClient
from support.task_api import served


async def test_every_call_of_the_sdk_is_one_of_the_contract() -> None:
    async with served() as api:
        client = TaskClient(f"unix://{api.path}")
        say = asyncio.to_thread
        assert (await say(client.context))["namespace"] == "/ann/train"
        assert (await say(client.keys))["project_key"] == "aa" * 32
        await say(client.progress, 1, 2, "steps", "note")
        assert (await say(client.put_endpoint, "e1", "a", "10.0.0.7:30001", 600_000, {"k": "v"}))["lease_ms"] == 600_000
        assert await say(client.delete_endpoint, "e1") is True
        (found,) = await say(client.endpoints, "a", job="/ann/other")
        assert found["name"] == "a"
        assert (await say(client.submit, {"name": "x", "command": ["true"]}, "key"))["job_id"] == "op_2"
        assert (await say(client.job, "op_2"))["status"] == "running"
        await say(client.job, "op_2", 5)
        await say(client.cancel, "op_2")
        asked = [method for method, _ in api.calls.asked]
        assert asked == [
            "keys", "progress", "endpoints.register", "endpoints.unregister", "endpoints.list", "jobs.submit",
            "jobs.show", "jobs.wait", "jobs.cancel",
        ]  # fmt: skip
        assert api.calls.asked[5][1] == {"spec": {"name": "x", "command": ["true"]}, "key": "key"}


async def test_refusals_and_absence_are_typed() -> None:
    async with served() as api:
        client = TaskClient(f"unix://{api.path}")
        api.calls.away = True
        with pytest.raises(ControllerUnreachable) as away:
            await asyncio.to_thread(client.job, "op_2")
        assert away.value.code == "controller_unreachable"
        with pytest.raises(ApiError) as refused:
            await asyncio.to_thread(client.call, "GET", "/v1/nosuch")
        assert (refused.value.status, refused.value.code) == (404, "not_found")
        assert not isinstance(refused.value, ControllerUnreachable)
    with pytest.raises(ControllerUnreachable):
        await asyncio.to_thread(client.context)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "unix://", "unix:relative", ""])
def test_an_address_is_a_socket(address: str) -> None:
    with pytest.raises(SdkError):
        TaskClient(address)


async def test_curl_is_enough() -> None:
    async with served() as api:
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", "--fail", "--unix-socket", str(api.path), "-X", "PUT", "-d", '{"name": "a", "port": 30001}',
            "http://task/v1/endpoints/e1", stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert b'"lease_ms":600000' in out
