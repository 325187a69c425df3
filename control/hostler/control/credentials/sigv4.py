"""AWS Signature Version 4: a signed request's header, and a presigned GET.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import datetime
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

_ALGORITHM = "AWS4-HMAC-SHA256"
MAX_PRESIGNED_S = 7 * 86_400


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A long-lived access key, as it stands in a minter's secret file."""

    access_key_id: str
    secret_access_key: str

    def __repr__(self) -> str:
        return "[secret]"


class Where(NamedTuple):
    region: str
    service: str


def authorization(
    method: str, url: str, headers: Mapping[str, str], body: bytes, keys: Keys, where: Where, now_ms: int
) -> dict[str, str]:
    """The headers to send: those given, the date, and the signature over them."""
    split, date = urlsplit(url), _date(now_ms)
    signed = {name.lower(): value for name, value in headers.items()} | {"host": split.netloc, "x-amz-date": date}
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            split.path or "/",
            split.query,
            *(f"{name}:{signed[name].strip()}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{date[:8]}/{where.region}/{where.service}/aws4_request"
    signature = _signature(canonical, date, scope, keys, where)
    credential = f"Credential={keys.access_key_id}/{scope}"
    signed["authorization"] = f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
    return signed


def presigned(url: str, seconds: int, keys: Keys, where: Where, now_ms: int) -> str:
    """A GET of `url` (which has no query) that works for so long without any key."""
    split, date = urlsplit(url), _date(now_ms)
    scope = f"{date[:8]}/{where.region}/{where.service}/aws4_request"
    query = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key_id}/{scope}",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(min(seconds, MAX_PRESIGNED_S)),
        "X-Amz-SignedHeaders": "host",
    }
    text = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))
    path = quote(split.path or "/", safe="/-_.~%")
    canonical = "\n".join(["GET", path, text, f"host:{split.netloc}", "", "host", "UNSIGNED-PAYLOAD"])
    return f"https://{split.netloc}{path}?{text}&X-Amz-Signature={_signature(canonical, date, scope, keys, where)}"


def _signature(canonical: str, date: str, scope: str, keys: Keys, where: Where) -> str:
    to_sign = "\n".join([_ALGORITHM, date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + keys.secret_access_key.encode()
    for part in (date[:8], where.region, where.service, "aws4_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _date(now_ms: int) -> str:
    return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
