"""The state machines as tables: (state, event) → state. What is not in a table does not happen.

    operation   queued ─▶ running ─▶ succeeded │ failed │ canceled          (OP-08)
    task        queued ─▶ assigned ─▶ running ─▶ succeeded │ failed │ canceled

Final states have one way out: `retry` opens a new attempt of what failed or was cancelled (RT-03). Within
an attempt they are final, and each attempt ends once.
"""

from hostler.base.errors import error

QUEUED, ASSIGNED, RUNNING = "queued", "assigned", "running"
SUCCEEDED, FAILED, CANCELED = "succeeded", "failed", "canceled"
FINAL = frozenset({SUCCEEDED, FAILED, CANCELED})
IN_FLIGHT = frozenset({ASSIGNED, RUNNING})

OPERATION_STATES = (QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELED)
OPERATION: dict[tuple[str, str], str] = {
    (QUEUED, "start"): RUNNING,
    (QUEUED, "succeed"): SUCCEEDED,
    (QUEUED, "fail"): FAILED,
    (QUEUED, "cancel"): CANCELED,
    (RUNNING, "succeed"): SUCCEEDED,
    (RUNNING, "fail"): FAILED,
    (RUNNING, "cancel"): CANCELED,
    (FAILED, "retry"): QUEUED,
    (CANCELED, "retry"): QUEUED,
}

TASK_STATES = (QUEUED, ASSIGNED, RUNNING, SUCCEEDED, FAILED, CANCELED)
TASK: dict[tuple[str, str], str] = {
    (QUEUED, "assign"): ASSIGNED,
    (QUEUED, "fail"): FAILED,
    (QUEUED, "cancel"): CANCELED,
    (ASSIGNED, "assign"): ASSIGNED,  # its envelope expired before the node took it: signed again
    (ASSIGNED, "recover"): QUEUED,  # a new epoch asks for it again; a node that ran it says what came of it
    (ASSIGNED, "take_back"): QUEUED,  # its node came back without it, and lacks what it takes by now
    (ASSIGNED, "start"): RUNNING,
    (ASSIGNED, "succeed"): SUCCEEDED,
    (ASSIGNED, "fail"): FAILED,
    (ASSIGNED, "cancel"): CANCELED,
    (RUNNING, "recover"): QUEUED,
    (QUEUED, "requeue"): QUEUED,  # a job's task leaves its node and waits for another, as a new attempt
    (ASSIGNED, "requeue"): QUEUED,
    (RUNNING, "requeue"): QUEUED,
    (RUNNING, "succeed"): SUCCEEDED,
    (RUNNING, "fail"): FAILED,
    (RUNNING, "cancel"): CANCELED,
    (FAILED, "retry"): QUEUED,
    (CANCELED, "retry"): QUEUED,
}

DEFINITION_STATES = ("active", "deprecated", "retired")
DEFINITION: dict[tuple[str, str], str] = {
    ("active", "deprecated"): "deprecated",
    ("active", "retired"): "retired",
    ("deprecated", "retired"): "retired",
}


def advance(table: dict[tuple[str, str], str], state: str, event: str, what: str) -> str:
    """The next state.

    Raises:
        HostlerError: `operation_final` from a final state, `operation_not_final` where it has to be one.
    """
    following = table.get((state, event))
    if following is not None:
        return following
    if event == "retry" and state not in FINAL:
        raise error("operation_not_final", f"{what} is {state}")
    raise error("operation_final", f"{what} is {state}, and {event} does not follow from there")
