# ruff: noqa: E501 - a table: one guard a line
"""Each guard of trust and catalog, taken out of the source: the tests of its room go red. None is silent."""

import pytest

from support.mutant import Guard, outcome_without

DSSE, TRUST, KEYSET = "hostler.pki.dsse", "hostler.pki.trust", "hostler.pki.keyset"
CHAIN, BUNDLE, X509, STORAGE = "hostler.pki.chain", "hostler.pki.bundle", "hostler.pki.x509", "hostler.pki.storage"
MANIFEST, ARGV, INPUTS = "hostler.catalog.manifest", "hostler.catalog.argv", "hostler.catalog.inputs"
POLICY, LOAD, LINT = "hostler.catalog.policy", "hostler.catalog.load", "hostler.catalog.lint"

PKI, CATALOG = "tests/unit/pki", "tests/unit/catalog"
GUARDS = {
    "payload type": (DSSE, "if envelope.payload_type != payload_type:", "if False:", PKI),
    "trusted keys only": (DSSE, "if s.keyid in trusted]", "]", PKI),
    "signature fits": (DSSE, "if trusted[s.keyid].verifies(s.sig, data)}", "}", PKI),
    "keys counted once": (DSSE, "len(good) < threshold", "len(claimed) < threshold", PKI),
    "threshold below one": (DSSE, "if threshold < 1:", "if False:", PKI),
    "envelope fields": (DSSE, "class _JsonEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True,",
                        "class _JsonEnvelope(msgspec.Struct, frozen=True,", PKI),
    "keyset rollback": (TRUST, "if keyset.version <= self._keyset.version:", "if False:", PKI),
    "saved rollback": (TRUST, "if keyset.version < state.keyset_version:", "if False:", PKI),
    "keyset freeze": (TRUST, "if keyset.expires_ms <= now_ms:", "if False:", PKI),
    "stale keyset verifies nothing": (TRUST, "if self._keyset.expires_ms <= now_ms:", "if False:", PKI),
    "own roots sign": (TRUST, "        self._verified(dsse_json, own, keyset.roles[KeyRole.ROOT].threshold)\n", "", PKI),
    "trust domain": (TRUST, "if keyset.trust_domain != self._state.trust_domain:", "if False:", PKI),
    "key under its own name": (KEYSET, "if key.key_id != keyid:", "if False:", PKI),
    "reachable threshold": (KEYSET, "if not 1 <= role.threshold <= len(set(role.keyids)):", "if False:", PKI),
    "chain continues": (CHAIN, "if link.previous != head.digest:", "if False:", PKI),
    "chain of this node": (CHAIN, "if link is None or link.node_id != node_id:", "if link is None:", PKI),
    "node key certified": (BUNDLE, "if identity.thumbprint != key.key_id or identity.role != \"node\" or identity.name != node_id:",
                           "if False:", PKI),
    "proof of possession": (X509, "if not proved:", "if False:", PKI),
    "certificate's life": (X509, "if not identity.not_before_ms <= now_ms < identity.not_after_ms:", "if False:", PKI),
    "private key file": (STORAGE, "if mode & 0o077:", "if False:", PKI),
    "catalog rollback": (MANIFEST, "if manifest.version < current_version:", "if False:", CATALOG),
    "catalog freeze": (MANIFEST, "if manifest.expires_ms <= now_ms:", "if False:", CATALOG),
    "catalog key": (MANIFEST, "KeyRole.CATALOG, now_ms", "KeyRole.DISPATCH, now_ms", CATALOG),
    "definition's name": (MANIFEST, "if definition.ref != ref:", "if False:", CATALOG),
    "leading dash": (ARGV, 'if text.startswith("-") and', "if False and", CATALOG),
    "control characters": (ARGV, 'if any(unicodedata.category(character).startswith("C") for character in text):',
                           "if False:", CATALOG),
    "look-alikes": (ARGV, 'if not text.isascii() and not schema.get("x-allow-unicode"):', "if False:", CATALOG),
    "argument length": (ARGV, "if len(text.encode()) > MAX_ARGUMENT_BYTES:", "if False:", CATALOG),
    "secrets": (INPUTS, "raise error(\"secret_in_payload\"", "error(\"secret_in_payload\"", CATALOG),
    "user information in a URL": (POLICY, '"@" in split.netloc', "False", CATALOG),
    "dots in a URL": (POLICY, '".." in path.split("/")', "False", CATALOG),
    "path boundary": (POLICY, 'asked[3].startswith(f"{root}/")', "asked[3].startswith(root)", CATALOG),
    "required signatures stay required": (POLICY, "parent.require_signature_verification\n        or ", "", CATALOG),
    "duplicate YAML keys": (LOAD, "if key in built:", "if False:", CATALOG),
    "YAML anchors": (LOAD, "isinstance(token, yaml.AnchorToken | yaml.AliasToken)", "False", CATALOG),
    "interpreters": (LINT, 'if program in INTERPRETERS or program.rstrip("0123456789.") in INTERPRETERS:', "if False:", CATALOG),
    "auto-executed folders": ("hostler.catalog.auto_executed", "if kind in WRITING_KINDS and", "if False and", CATALOG),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_trust_its_room_s_tests_fail(name: str) -> None:
    module, text, without, tests = GUARDS[name]
    done = outcome_without(Guard(module, text, without), tests)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
