"""The routes of code bundles; a part of the table."""

from hostler.control.api import bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import code_bundles
from hostler.control.store import records

_ALL = "/api/v1/projects/{project_id}/bundles"
_ONE = f"{_ALL}/{{sha256}}"

BUNDLE_ROUTES: tuple[Route, ...] = (
    Route(
        "PUT",
        _ONE,
        "bundles.write",
        code_bundles.put,
        "Keep a code bundle for jobs: the body is a plain tar with this sha256",
        action="bundle.store",
        upload=True,
        answer=bodies.BundleKept,
    ),
    Route("GET", _ONE, "bundles.read", code_bundles.get, "Whether a code bundle is kept", answer=records.BundleView),
    Route(
        "GET",
        _ALL,
        "bundles.read",
        code_bundles.listing,
        "List code bundles",
        query=("cursor", "page_size"),
        answer=records.Page[records.BundleView],
    ),
    Route(
        "DELETE",
        _ONE,
        "bundles.write",
        code_bundles.delete,
        "Remove a code bundle that no open job names",
        action="bundle.delete",
        answer=bodies.BundleRef,
    ),
)
