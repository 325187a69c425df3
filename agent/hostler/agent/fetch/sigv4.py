"""AWS Signature Version 4 for a GET without a body: the headers that prove who asks.

Specification: "Signature Version 4 signing process" and "Authenticating Requests (AWS Signature Version 4)" of Amazon
S3. Only what is needed: no query, no session beyond its token, the empty body's digest.
"""

import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote, unquote

_EMPTY = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    *, host: str, path: str, region: str, access_key: str, secret_key: str, session_token: str, at_ms: int
) -> Mapping[str, str]:
    """Args:
    host: as it will stand in the Host header, with a port that is not the scheme's own.
    path: as it is sent, without a query.
    at_ms: Unix milliseconds; a store accepts some minutes of difference.
    """
    moment = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
    if session_token:
        headers["x-amz-security-token"] = session_token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"GET\n{quote(unquote(path), safe='/-_.~')}\n\n{lines}\n{names}\n{_EMPTY}"
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    del headers["host"]  # the client writes it itself
    headers["Authorization"] = (
        f"{_ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
