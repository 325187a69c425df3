"""CG-03: one version apart works; further apart is refused with a sentence that says what to do."""

import pytest

from hostler.base.envelope import CANCEL_TYPE, TASK_TYPE
from hostler.base.errors import HostlerError
from hostler.wire.versions import OLDEST, PROTOCOL, check_agreed, check_envelopes, negotiate


@pytest.mark.parametrize(
    ("newest", "oldest", "agreed"),
    [(5, 4, 5), (4, 3, 4), (6, 5, 5), (6, 4, 5), (5, 1, 5)],
    ids=["same", "agent-one-behind", "agent-one-ahead", "agent-wide", "agent-knows-all"],
)
def test_CG_03_the_highest_that_both_know_is_spoken(newest: int, oldest: int, agreed: int) -> None:
    assert negotiate(newest, oldest, ours=5, our_oldest=4) == agreed


@pytest.mark.parametrize(
    ("newest", "oldest", "advice"),
    [(3, 2, "update the agent"), (0, 0, "update the agent"), (7, 6, "update the control plane")],
)
def test_CG_03_nothing_in_common_is_refused_with_what_to_do(newest: int, oldest: int, advice: str) -> None:
    with pytest.raises(HostlerError, match=advice) as refused:
        negotiate(newest, oldest, ours=5, our_oldest=4)
    assert refused.value.code == "protocol_mismatch"


def test_CG_03_an_agent_of_before_versions_were_said_is_one_behind_and_works() -> None:
    assert (OLDEST, PROTOCOL) == (1, 2)
    assert negotiate(0, 0) == 1
    check_envelopes(())
    check_agreed(0)


@pytest.mark.parametrize("taken", [(TASK_TYPE,), (CANCEL_TYPE, TASK_TYPE.replace("v1", "v2"))])
def test_CG_03_an_agent_that_takes_other_envelopes_is_refused(taken: tuple[str, ...]) -> None:
    with pytest.raises(HostlerError, match="does not take envelopes") as refused:
        check_envelopes(taken)
    assert refused.value.code == "protocol_mismatch"


@pytest.mark.parametrize("agreed", [PROTOCOL + 1, 1 << 31])
def test_CG_03_an_agent_does_not_go_on_under_a_protocol_that_it_does_not_speak(agreed: int) -> None:
    with pytest.raises(HostlerError, match="update the control plane first") as refused:
        check_agreed(agreed)
    assert refused.value.code == "protocol_mismatch"
