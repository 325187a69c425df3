"""What a `credential.mint` step must keep before anybody signs it (CR-02, CR-03)."""

from collections.abc import Iterator

from hostler.base.errors import HostlerError
from hostler.catalog.binding import marked, reference, references
from hostler.catalog.credentials import CREDENTIAL_TYPES, intent_of
from hostler.catalog.definition import Definition, StepTemplate

KIND = "credential.mint"
Finding = tuple[str, str, str]


def credential_of_step(definition: Definition, index: int, step: StepTemplate) -> Iterator[Finding]:
    """(pointer below the step, message, hint) of every finding."""
    if step.kind != KIND:
        return
    yield from _asked(step)
    later = {each.id for each in definition.steps[index + 1 :]}
    users = step.params.get("for_steps", ())
    for user in users if isinstance(users, list | tuple) else ():
        if user not in later:
            yield (
                "/params/for_steps",
                f"{user!r} is no later step of the definition",
                f"the later steps are {', '.join(sorted(later)) or 'none'}",
            )
    if step.reusable:
        hint = "a credential ends with its attempt; say 'reusable: false'"
        yield "", f"step {step.id!r} is reusable, and the credential it makes is not", hint
    for each in definition.steps[index + 1 :]:
        if f"steps.{step.id}.handle" in references(each.params) and each.id not in users:
            yield (
                "/params/for_steps",
                f"step {each.id!r} uses the credential and is not named here",
                f"add {each.id!r} to for_steps",
            )


def _asked(step: StepTemplate) -> Iterator[Finding]:
    type_name, intent = step.params.get("credential_type"), step.params.get("intent")
    if type_name not in CREDENTIAL_TYPES:
        known = f"the types are {', '.join(CREDENTIAL_TYPES)}"
        yield "/params/credential_type", f"there is no credential type {type_name!r}", known
        return
    if any(True for _ in marked(step.params.get("for_steps"))):
        yield "/params/for_steps", "who may use a credential is named outright", "write the ids of the steps out"
    bound = list(marked(intent))
    for pointer, text in bound:
        found = reference(text)
        if found is not None and found[0]:
            hint = "what a node reports must not widen what it may have; bind an input"
            yield f"/params/intent{pointer}", "an intent may not be the output of a step", hint
    if not isinstance(intent, dict):
        yield "/params/intent", "the intent is written out, field by field", ""
    elif not bound:
        try:
            intent_of(type_name, intent)
        except HostlerError as err:
            yield f"/params/intent{err.pointer}", err.message, ""
