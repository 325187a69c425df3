"""Merkle hashing against the known answers of RFC 6962's reference tree, and against an independent library."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree
from pymerkle import verify_inclusion as referee_verify

from hostler.pki.merkle import EMPTY_ROOT, Tree, is_included, leaf_hash, node_hash

# The inputs and roots of the certificate-transparency reference implementation's own tests.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
LEAVES = st.lists(st.binary(max_size=20), min_size=1, max_size=40)


@pytest.mark.parametrize("size", range(1, 9))
def test_the_root_is_that_of_rfc_6962(size: int) -> None:
    assert Tree(INPUTS[:size]).root.hex() == ROOTS[size - 1]


def test_the_tree_of_nothing_is_the_hash_of_nothing() -> None:
    assert Tree([]).root == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_a_known_path_of_rfc_6962() -> None:
    tree = Tree(INPUTS[:8])
    assert [step.hex()[:16] for step in tree.path(0)] == ["96a296d224f285c6", "5f083f0a1a33ca07", "6b47aaf29ee3c2af"]


@given(LEAVES)
def test_an_independent_implementation_has_the_same_root_and_accepts_our_proofs(leaves: list[bytes]) -> None:
    referee = InmemoryTree(algorithm="sha256")
    for leaf in leaves:
        referee.append_entry(leaf)
    tree = Tree(leaves)
    assert referee.get_root() == tree.root
    for index, leaf in enumerate(leaves):
        proof = referee.prove_inclusion(index + 1)
        referee_verify(leaf_hash(leaf), tree.root, proof)
        theirs = [bytes.fromhex(step) for step in proof.serialize()["path"]][1:]  # its path begins with the leaf
        assert theirs == tree.path(index)


@given(LEAVES, st.data())
def test_every_leaf_is_proved_and_nothing_else_is(leaves: list[bytes], data: st.DataObject) -> None:
    tree = Tree(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = tree.path(index)
    assert is_included(leaves[index], index, tree.size, path, tree.root)
    assert not is_included(leaves[index] + b"x", index, tree.size, path, tree.root)
    assert not is_included(leaves[index], index, tree.size, [*path, tree.root], tree.root)
    assert not is_included(leaves[index], index, tree.size, path[:-1], tree.root) or not path
    other = data.draw(st.integers(-1, len(leaves) + 1))
    if not (0 <= other < len(leaves) and leaves[other] == leaves[index]):
        assert not is_included(leaves[index], other, tree.size, path, tree.root)


def test_an_inner_node_does_not_pass_for_a_leaf() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    tree = Tree([b"a", b"b", b"c"])
    assert not is_included(left + right, 0, 2, [leaf_hash(b"c")], tree.root)
    assert node_hash(left, right) != leaf_hash(left + right)


def test_a_leaf_that_is_not_there_has_no_path() -> None:
    with pytest.raises(IndexError):
        Tree([b"a"]).path(1)


def test_a_proof_for_a_tree_of_another_size_proves_nothing() -> None:
    """A path that fits the root is not enough: it has to be as long as the tree of that size is high."""
    eight, two = Tree(INPUTS), Tree(INPUTS[:2])
    assert not is_included(INPUTS[7], 0, 1, eight.path(7), eight.root)
    assert not is_included(INPUTS[0], 0, 4, two.path(0), two.root)
