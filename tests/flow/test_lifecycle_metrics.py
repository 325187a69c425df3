"""OB-08: a node's life is counted in a metric family of its own, whose series no node can make."""

from pathlib import Path

import grpc.aio
import pytest

from hostler.pki.keys import new_p256
from hostler.pki.x509 import make_csr
from hostler.v1 import node_pb2, node_pb2_grpc
from support import fake_node
from support.plane import DOMAIN, Plane, plane


async def scraped(control: Plane) -> dict[str, float]:
    lines = (await control.http.get("/metrics")).text.splitlines()
    named = (line.rsplit(" ", 1) for line in lines if line.startswith("hostler_lifecycle_"))
    return {name: float(value) for name, value in named}


def requests(action: str, result: str) -> str:
    return f'hostler_lifecycle_requests_total{{action="{action}",result="{result}"}}'


async def test_OB_08_enrolments_renewals_and_states_are_counted_apart(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        assert (await scraped(control))[requests("renew", "ok")] == 0, "there from the start"
        node = await control.enroll()
        with pytest.raises(grpc.aio.AioRpcError):
            await fake_node.enroll("hst1_x", control.config.enroll_listen, control.ca_pems, DOMAIN)
        async with node.channel() as channel:
            stub = node_pb2_grpc.NodeServiceStub(channel)
            await stub.Renew(node_pb2.RenewRequest(csr_der=make_csr(node.signer, "node")))
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.Renew(node_pb2.RenewRequest(csr_der=make_csr(new_p256(), "node")))
        found = await scraped(control)
        counted = {name: value for name, value in found.items() if "requests_total" in name and value}
        assert counted == {
            requests("enrol", "ok"): 1,
            requests("enrol", "enrolment_token_invalid"): 1,
            requests("renew", "ok"): 1,
            requests("renew", "certificate_invalid"): 1,
        }
        assert found['hostler_lifecycle_request_seconds_count{action="renew"}'] == 2
        states = {name: value for name, value in found.items() if "_nodes{" in name and value}
        assert states == {'hostler_lifecycle_nodes{state="active"}': 1}
        await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
        assert (await scraped(control))['hostler_lifecycle_nodes{state="revoked"}'] == 1
        assert not any(node.node_id in name for name in found), "no series is named after a node"
