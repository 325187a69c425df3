# ruff: noqa: E501 - a table: one guard a line
"""Each guard of checkpoints, witness and bundles, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

PKI, CONTROL = "hostler.pki", "hostler.control"
MERKLE, CHECKPOINT, WITNESS, FILES = f"{PKI}.merkle", f"{PKI}.checkpoint", f"{PKI}.witness", f"{PKI}.witness_files"
CHAIN, COVERAGE, BUNDLE, HISTORY = f"{PKI}.chain", f"{PKI}.coverage", f"{PKI}.bundle", f"{PKI}.keyset_history"
ROUTE, KERNEL, LOOP = f"{CONTROL}.api.routes.audit", f"{CONTROL}.kernel.checkpoints", f"{CONTROL}.loops.checkpoints"

TREE = "tests/unit/pki/test_merkle.py"
WITNESSED = "tests/unit/pki/test_witness.py"
BUNDLED = "tests/unit/pki/test_bundle_checkpoints.py"
ANCHORED = "tests/unit/pki/test_chain.py"
MADE = "tests/unit/control/engine/test_checkpoints.py"
POSTED = "tests/flow/test_checkpoints_and_witness.py::test_a_countersignature_that_is_no_witness_s_is_refused"

GUARDS = {
    "leaf and node are told apart": (MERKLE, 'b"\\x00" + data', "data", TREE),
    "path no longer than the tree": (MERKLE, "if last == 0:\n            return False", "if False:\n            pass", TREE),
    "path no shorter than the tree": (MERKLE, "return last == 0 and found == root", "return found == root", TREE),
    "leaf inside the tree": (MERKLE, "if not 0 <= index < size:", "if False:", TREE),
    "dispatch key is no witness": (CHECKPOINT, " if key.key_id not in own)", ")", WITNESSED),
    "word on this checkpoint": (
        CHECKPOINT,
        "return about == (checkpoint.digest, checkpoint.index, checkpoint.trust_domain, checkpoint.cluster_id)",
        "return bool(about)",
        WITNESSED,
    ),
    "enough witnesses": (CHECKPOINT, "len(witnesses) >= role.threshold", "len(witnesses) >= 1", BUNDLED),
    "records follow each other": (WITNESS, "if after.previous != before.digest:", "if False:", WITNESSED),
    "no gap between records": (WITNESS, "if after.index != before.index + 1:", "if False:", WITNESSED),
    "the next one only": (WITNESS, "if checkpoint.index != state.index + 1:", "if False:", WITNESSED),
    "follows what was seen": (WITNESS, "if checkpoint.previous != state.digest:", "if False:", WITNESSED),
    "same index, same checkpoint": (WITNESS, "checkpoint.digest != start.digest:", "False:", WITNESSED),
    "older than what was seen": (WITNESS, "if before is not None and before.index < start.index:", "if False:", WITNESSED),
    "nothing, after something was seen": (WITNESS, "if before is None and start.last is not None:", "if False:", WITNESSED),
    "same control plane": (
        WITNESS,
        "if (checkpoint.trust_domain, checkpoint.cluster_id) != (last.trust_domain, last.cluster_id):",
        "if False:",
        WITNESSED,
    ),
    "control epoch": (WITNESS, "if checkpoint.control_epoch < last.control_epoch:", "if False:", WITNESSED),
    "date": (WITNESS, "if checkpoint.at_ms < last.at_ms:", "if False:", WITNESSED),
    "chain does not shrink": (WITNESS, "if new.length < (old.length if old else 1):", "if False:", WITNESSED),
    "chain goes on where it stood": (
        WITNESS,
        "if advance(start, new.node_id, receipts, new.length) != ChainHead(new.length, new.digest):",
        "if False:",
        WITNESSED,
    ),
    "no node is hidden": (WITNESS, "if checkpoint.nodes < len(heads):", "if False:", WITNESSED),
    "no receipt is hidden": (WITNESS, "if checkpoint.receipts < receipts:", "if False:", WITNESSED),
    "root over what is shown": (
        WITNESS,
        "if (checkpoint.nodes, checkpoint.receipts, checkpoint.root) != (tree.size, receipts, tree.root.hex()):",
        "if False:",
        WITNESSED,
    ),
    "state before signature": (FILES, "        write_private(path, msgspec.json.encode(state))\n", "", WITNESSED),
    "witness of the keyset": (FILES, "            _check_key(signer, keysets[-1])\n", "", WITNESSED),
    "witness of this fleet": (FILES, "if state.last.trust_domain != trust.trust_domain:", "if False:", WITNESSED),
    "one round at a time": (FILES, "            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "            pass\n", WITNESSED),
    "keysets follow from the root": (HISTORY, 'if err.code != "keyset_rollback" and not _is_older(document, store):', "if False:", ANCHORED),
    "receipt that a checkpoint names": (CHAIN, "if known is not None and known != receipt_digest(receipts[position]):", "if False:", BUNDLED),
    "receipt alone in its bytes": (CHAIN, "if receipt != receipt.strip():", "if False:", MADE),
    "cut off end": (COVERAGE, "if head.length > end:", "if False:", BUNDLED),
    "every checkpoint's head": (
        COVERAGE,
        "if receipt_digest(receipts[head.length - 1 - start]) != head.digest:",
        "if False:",
        BUNDLED,
    ),
    "proved heads only": (COVERAGE, "if node_id in each.unproved or (", "if (", BUNDLED),
    "no proof left out": (COVERAGE, " or (was_in and node_id not in each.heads):", ":", BUNDLED),
    "proof leads to the root": (
        COVERAGE,
        "return is_included(head.leaf(), included.index, checkpoint.nodes, path, root)",
        "return True",
        BUNDLED,
    ),
    "one checkpoint for one index": (COVERAGE, "return [] if same else", "return [] if True else", BUNDLED),
    "newest is not older than one seen": (COVERAGE, "if newer.index < older.index:", "if False:", BUNDLED),
    "checkpoints do not vanish": (
        COVERAGE,
        'return [BundleFault("audit_rollback", "there is no checkpoint any more")]',
        "return []",
        BUNDLED,
    ),
    "hidden node": (COVERAGE, "if opened[-1].checkpoint.nodes == len(opened[-1].heads):", "if False:", BUNDLED),
    "exchanged chain": (COVERAGE, "if place >= 0 and bytes(receipts[place]) != bytes(receipt):", "if False:", BUNDLED),
    "chain left out": (COVERAGE, "if held == newest.checkpoint.nodes:", "if True:", BUNDLED),
    "required witness": (BUNDLE, "if report.fault is not None or report.witnessed >= start + report.length:", "if True:", BUNDLED),
    "faults of the whole": (BUNDLE, "ok=not faults and all(", "ok=all(", BUNDLED),
    "made from the newest": (KERNEL, "if command.index != index:", "if False:", MADE),
    "known checkpoint": (KERNEL, " or checkpoint.digest != command.checkpoint:", ":", MADE),
    "clock set back": (KERNEL, "max(draft.now_ms, last.at_ms if last else 0)", "draft.now_ms", MADE),
    "a new dispatch key": (LOOP, 'self._signed_by in ("", self._engine.dispatch_keyid)', "True", MADE),
    "countersigned by a witness": (ROUTE, "for key in witness_keys(", "for key in everybody(", POSTED),
    "countersignature fits": (
        ROUTE,
        "return open_countersignature(document, keys[0]), keys[0]",
        "return msgspec.json.decode(dsse.from_json(document).payload, type=Countersignature), keys[0]",
        POSTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_J3_a_guard_of_the_audit_that_is_gone_is_noticed(name: str) -> None:
    module, text, without, tests = GUARDS[name]
    done = outcome_without(Guard(module, text, without), tests)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
