"""OP-08: what is not in a table does not happen."""

import itertools

import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.transitions import (
    DEFINITION,
    DEFINITION_STATES,
    FINAL,
    OPERATION,
    OPERATION_STATES,
    TASK,
    TASK_STATES,
    advance,
)

EVENTS = ("start", "assign", "succeed", "fail", "cancel", "retry")
PAIRS = [
    (table, state, event)
    for table, states in ((OPERATION, OPERATION_STATES), (TASK, TASK_STATES))
    for state, event in itertools.product(states, EVENTS)
]


@pytest.mark.parametrize(("table", "state", "event"), PAIRS)
def test_OP_08_every_pair_either_is_in_the_table_or_is_refused(table, state, event) -> None:
    if (state, event) in table:
        assert advance(table, state, event, "it") == table[state, event]
        return
    with pytest.raises(HostlerError) as refused:
        advance(table, state, event, "it")
    assert refused.value.code in ("operation_final", "operation_not_final")


@pytest.mark.parametrize("table", [OPERATION, TASK])
def test_OP_08_only_a_retry_leaves_a_final_state_and_success_is_never_left(table) -> None:
    leaving = {(state, event) for state, event in table if state in FINAL}
    assert leaving == {("failed", "retry"), ("canceled", "retry")}


def test_OP_08_the_operation_has_exactly_the_five_states_of_the_contract() -> None:
    assert set(OPERATION_STATES) == {"queued", "running", "succeeded", "failed", "canceled"}
    assert set(OPERATION.values()) | {"queued"} == set(OPERATION_STATES)


def test_retry_of_what_has_not_ended_says_so() -> None:
    with pytest.raises(HostlerError) as refused:
        advance(OPERATION, "running", "retry", "operation op_1")
    assert refused.value.code == "operation_not_final"


def test_OP_18_a_definition_only_moves_towards_retirement() -> None:
    order = {state: place for place, state in enumerate(DEFINITION_STATES)}
    assert all(order[before] < order[after] for before, after in DEFINITION)
