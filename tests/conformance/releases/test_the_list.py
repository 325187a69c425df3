"""PG-06, PK-09, T8: the case list of tuf-conformance held against the verifier of releases.

It is python-tuf's own machine, rooted in our keyset. Names are theirs; a *target* is a package. What a client downloads
on its own account has no counterpart: the metadata of all roles is pushed at once.
"""

import ast
from pathlib import Path

from support.tuf_cases import ALL

NO_COUNTERPART = {
    "test_artifact_cache": "packages are kept by digest; there is no cache to go stale",
    "test_basic_refresh_requests": "nothing is requested by name: the metadata is pushed as one document",
    "test_client_downloads_expected_file_in_sub_dir": "a package has a name, no path: test_names_of_packages",
    "test_delegation_not_in_snapshot": "delegations are refused: test_delegations_are_refused",
    "test_faketime": "the verifier takes the time as an argument",
    "test_graph_traversal": "delegations are refused: test_delegations_are_refused",
    "test_implicit_refresh": "nothing is downloaded on demand",
    "test_static_repository": "tests/unit/cli/test_releases.py gives a repository to python-tuf's own client",
    "test_targetfile_search": "delegations are refused: test_delegations_are_refused",
    "test_targets_role_removal": "delegations are refused: test_delegations_are_refused",
    "test_unusual_role_name": "delegations are refused: test_delegations_are_refused",
    "test_url_and_metadata_version_mismatch": "no version in an address",
    "test_snapshot_404": "all four roles come in one document: test_timestamp_404",
    "test_targets_404": "all four roles come in one document: test_timestamp_404",
}


def test_every_case_of_theirs_is_here_or_has_its_reason() -> None:
    """Here is this folder."""
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    here = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    here |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert NO_COUNTERPART.keys() <= ALL
    assert not (NO_COUNTERPART.keys() & here)
    assert ALL - NO_COUNTERPART.keys() <= here
