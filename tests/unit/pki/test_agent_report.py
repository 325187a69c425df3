"""LC-04: what an agent says of itself is believed only as far as its own key vouches, and within bounds."""

from typing import Any

import msgspec
import pytest

from hostler.base.envelope import AGENT_REPORT_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.agent_report import AgentReport, DriftState, Evidence, open_report, sign_report
from hostler.pki.keys import new_ed25519

KEY = new_ed25519()


def report(**changes: Any) -> AgentReport:
    values: dict[str, Any] = {"node_id": "node_1", "at_ms": 1, "version": "1.0.0", "commit": "c" * 40}
    return AgentReport(**(values | {"state": DriftState.IN_SYNC} | changes))


def test_LC_04_a_report_of_ones_own_is_read() -> None:
    said = report(evidence=(Evidence(kind="file", name="lib/x.py", expected="a", found="b"),))
    assert open_report(sign_report(said, KEY), "node_1", KEY.public) == said


@pytest.mark.parametrize("field", ["at_ms", "looked_ms", "next_at_ms"])
@pytest.mark.parametrize("moment", [-1, 1 << 53, 1 << 63, 1 << 64, 10**30])
def test_S8_a_moment_that_no_store_can_hold_is_refused(field: str, moment: int) -> None:
    said = msgspec.to_builtins(report()) | {field: moment}
    body = msgspec.json.encode({**said, field: 0}).replace(
        b'"%s":0' % field.encode(), b'"%s":%d' % (field.encode(), moment)
    )
    document = dsse.to_json(dsse.sign(body, AGENT_REPORT_TYPE, [KEY]))
    with pytest.raises(HostlerError) as caught:
        open_report(document, "node_1", KEY.public)
    assert caught.value.code == "invalid_request"
