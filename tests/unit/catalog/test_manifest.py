"""The signed catalog: nothing older, nothing expired, nothing mixed in, nothing unsigned."""

from typing import Any

import msgspec
import pytest

from hostler.base.digest import canonical_json
from hostler.base.envelope import CATALOG_TYPE
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, definition_from
from hostler.catalog.manifest import Manifest, make_manifest, open_catalog, read_bundle, sign_manifest, write_bundle
from hostler.pki import dsse
from support.keys import NOW, YEAR_MS, Keys

KEYS = Keys()
TRUST = KEYS.trust()
COMMAND = CommandProfile(id="show", command="/usr/bin/stat")
DEFINITION = definition_from(
    {
        "type": "unit.test",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False},
        "capabilities": {"os.kernel": "linux"},
        "steps": [{"id": "one", "kind": "command.exec_allowlisted", "params": {"profile": "show"}}],
    }
)
DOCUMENTS = [DEFINITION.canonical(), COMMAND.canonical()]


def manifest(version: int = 3, definitions: tuple[Definition, ...] = (DEFINITION,), **changes: Any) -> Manifest:
    made = make_manifest(version, definitions, [COMMAND], now_ms=NOW, lifetime_ms=YEAR_MS // 2)
    return msgspec.structs.replace(made, **changes)


def opened(signed: bytes, documents: list[bytes] = DOCUMENTS, current: int = 0, now_ms: int = NOW) -> Any:
    return open_catalog(signed, documents, TRUST, now_ms, current)


def refusal(*arguments: Any, **named: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        opened(*arguments, **named)
    return caught.value.code


GOOD = sign_manifest(manifest(), [KEYS.catalog])


def test_a_signed_catalog_opens() -> None:
    catalog = opened(GOOD)
    assert catalog.definitions["unit.test@v1"] == DEFINITION
    assert catalog.commands["show"] == COMMAND


def test_SE_08_the_dispatch_key_cannot_sign_a_catalog() -> None:
    assert refusal(sign_manifest(manifest(), [KEYS.dispatch])) == "untrusted_key"


def test_T8_an_older_catalog_is_a_rollback_and_the_same_is_not() -> None:
    assert refusal(GOOD, current=4) == "catalog_rollback"
    opened(GOOD, current=3)


def test_T8_an_expired_catalog_is_a_freeze() -> None:
    assert refusal(GOOD, now_ms=NOW + YEAR_MS * 2 // 3) == "catalog_stale"


def test_T8_a_document_of_another_version_is_a_mix() -> None:
    other = msgspec.structs.replace(DEFINITION, description="other")
    assert refusal(GOOD, [other.canonical(), COMMAND.canonical()]) == "catalog_mismatch"
    assert refusal(GOOD, [DEFINITION.canonical()]) == "catalog_mismatch"


def test_a_definition_filed_under_another_name_is_refused() -> None:
    renamed = manifest(definitions=(DEFINITION,))
    renamed = msgspec.structs.replace(renamed, definitions={"other@v1": DEFINITION.digest()})
    assert refusal(sign_manifest(renamed, [KEYS.catalog])) == "catalog_mismatch"


def test_a_definition_whose_command_profile_is_absent_is_refused() -> None:
    bare = manifest(commands={})
    assert refusal(sign_manifest(bare, [KEYS.catalog])) == "catalog_mismatch"


@pytest.mark.parametrize("change", [{"unknown": 1}, {"version": "3"}, {"version": -0.5}])
def test_T5_a_signed_manifest_in_another_form_is_refused(change: dict[str, Any]) -> None:
    document = canonical_json(msgspec.to_builtins(manifest()) | change)
    signed = dsse.to_json(dsse.sign(document, CATALOG_TYPE, [KEYS.catalog]))
    assert refusal(signed) == "catalog_mismatch"


def test_T7_a_threshold_of_two_needs_two_different_catalog_keys() -> None:
    second = Keys()
    both = Keys(catalog=KEYS.catalog, catalog_more=(second.catalog,), catalog_threshold=2)
    trust = both.trust()
    with pytest.raises(HostlerError):
        open_catalog(GOOD, DOCUMENTS, trust, NOW)
    twice = sign_manifest(manifest(), [KEYS.catalog, KEYS.catalog])
    with pytest.raises(HostlerError):
        open_catalog(twice, DOCUMENTS, trust, NOW)
    open_catalog(sign_manifest(manifest(), [KEYS.catalog, second.catalog]), DOCUMENTS, trust, NOW)


def test_a_bundle_file_survives_reformatting() -> None:
    pretty = msgspec.json.format(write_bundle(GOOD, DOCUMENTS), indent=4)
    signed, documents = read_bundle(pretty)
    assert opened(signed, list(documents)).version == 3


@pytest.mark.parametrize("data", [b"", b"[]", b'{"manifest":{}}', b'{"manifest":{},"documents":[],"more":1}'])
def test_what_is_no_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(HostlerError):
        read_bundle(data)
