"""Operation definitions: registered through a signed catalog, never one by one unsigned (API-01..04)."""

from typing import Any

from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.catalog.definition import Definition
from hostler.catalog.manifest import read_bundle
from hostler.control.api import pages
from hostler.control.api.bodies import DefinitionState, DefinitionWords, Registered
from hostler.control.api.call import MAX_CATALOG, Call
from hostler.control.kernel.commands import DescribeDefinition, RegisterCatalog, SetDefinitionState

# the fields of the signed document, and the names under which the data model knows some of them (DM-02)
IMMUTABLE = frozenset(Definition.__struct_fields__) - {"description"} | {
    "step_plan",
    "input_schema",
    "artifact_constraints",
    "operation_type",
    "digest",
    "signature",
}


async def register(call: Call) -> tuple[int, Registered]:
    """201 with the `type@version`s that are new. Unsigned → 422 `catalog_unsigned`."""
    manifest, documents = read_bundle(await call.bytes(MAX_CATALOG))
    command = RegisterCatalog(actor=call.principal.actor(), manifest=manifest, documents=documents)
    registered = await call.execute(command)
    return 201, Registered(tuple(registered))


async def listing(call: Call) -> Any:
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.definitions(call.query("cursor"), size)


async def get(call: Call) -> Any:
    ref = call.path("ref")
    found = await call.engine.reader.definition(ref)
    if found is None:
        raise error("not_found", f"there is no definition {ref!r}")
    return found


async def describe(call: Call) -> Any:
    """The definition with its new words. What it does is immutable: such a field → 409 (API-02)."""
    ref = call.path("ref")
    data = await call.bytes()
    given = decode_json(data, dict[str, Any], what="body")
    fixed = sorted(set(given) & IMMUTABLE)
    if fixed:
        message = f"{fixed[0]} of {ref} was signed and never changes"
        raise error("definition_immutable", message, pointer=f"/{fixed[0]}")
    words = decode_json(data, DefinitionWords, what="body")
    await call.execute(
        DescribeDefinition(
            actor=call.principal.actor(),
            ref=ref,
            description=words.description,
            default_channel=words.default_channel,
            deprecation_note=words.deprecation_note,
        )
    )
    return await get(call)


async def deprecate(call: Call) -> Any:
    return await _set_state(call, "deprecated")


async def retire(call: Call) -> Any:
    return await _set_state(call, "retired")


async def _set_state(call: Call, state: str) -> DefinitionState:
    ref = call.path("ref")
    await call.execute(SetDefinitionState(actor=call.principal.actor(), ref=ref, state=state))
    return DefinitionState(ref, state)
