"""What an engine outside is to be asked before a tenant's request is decided (AZ-11, OD-35). Changes nothing."""

from typing import Any, TypeGuard

import msgspec

from hostler.control.kernel import allocations, jobs, submit
from hostler.control.kernel.allocation_commands import CreateAllocation
from hostler.control.kernel.commands import SubmitOperation
from hostler.control.kernel.job_commands import SubmitChildJob, SubmitJob
from hostler.control.kernel.model import Decision, Draft

AskedAbout = SubmitOperation | CreateAllocation | SubmitJob | SubmitChildJob


class WhatToAsk(msgspec.Struct, frozen=True):
    """→ the `permitted.Question` that the request raises; None where it was answered before."""

    command: AskedAbout


def is_asked_about(command: Any) -> TypeGuard[AskedAbout]:
    """A tenant's request whose answer it does not carry yet. What the house does for itself is not asked about."""
    if isinstance(command, SubmitOperation):
        return command.trigger_source == submit.ASKED and command.answer is None
    return isinstance(command, CreateAllocation | SubmitJob | SubmitChildJob) and command.answer is None


def what_to_ask(draft: Draft, asked: WhatToAsk) -> Decision:
    if isinstance(asked.command, CreateAllocation):
        return draft.decision(allocations.question_of(draft, asked.command))
    if isinstance(asked.command, SubmitJob | SubmitChildJob):
        return draft.decision(jobs.question_of(draft, asked.command))
    return draft.decision(submit.question_of(draft, asked.command))
