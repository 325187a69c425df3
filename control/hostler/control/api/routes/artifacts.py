"""What an operation took in and gave out: a list by digest, and the small outputs themselves (PF-07).

Bytes only leave here. Nothing is taken in: artifacts go to a registry, and only their digests come this way (AR-08).
"""

import base64
from typing import Any

from starlette.responses import Response

from hostler.base.errors import error
from hostler.control.api import pages
from hostler.control.api.call import Call


async def listing(call: Call) -> Any:
    operation = await call.operation()
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.artifacts(operation.operation_id, call.query("cursor"), size)


async def download(call: Call) -> Response:
    """The content with its digest (RFC 9530). What a node calls its type is data, so a browser is not told it."""
    operation = await call.operation()
    artifact_id = call.request.path_params["artifact_id"]
    content, sha256 = await call.engine.reader.artifact(operation.operation_id, artifact_id)
    if not content:
        raise error(
            "not_found", f"operation {operation.operation_id} keeps no content of artifact {artifact_id[:64]!r}"
        )
    digest = base64.b64encode(bytes.fromhex(sha256)).decode()
    headers = {
        "Repr-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, media_type="application/octet-stream", headers=headers)
