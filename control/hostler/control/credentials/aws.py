"""`s3_read` from an STS: a session that may read one prefix of one bucket, and only until the task's deadline."""

import datetime
import xml.parsers.expat
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from hostler.base.errors import error
from hostler.catalog.credentials import S3Intent, S3Read, SignedUrl, UrlIntent
from hostler.control.credentials import outgoing, sigv4
from hostler.control.credentials.config import AwsStsConfig, S3PresignConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private

LEAST_S, MOST_S = 900, 43_200  # what AssumeRole takes
_WANTED = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")


class AwsSts:
    """AssumeRole. The session's policy is an intersection with the role's: it can only take away."""

    def __init__(self, config: AwsStsConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        config, intent = self._config, ask.intent
        assert isinstance(intent, S3Intent)
        keys = _keys(config.secret_file, config.name)
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": config.role_arn,
            "RoleSessionName": f"hostler-{ask.task_id}"[:64],
            "DurationSeconds": str(min(max(ask.seconds, LEAST_S), MOST_S)),
            "Policy": msgspec.json.encode(session_policy(intent, ask.deadline_ms)).decode(),
        }
        body = urlencode(form).encode()
        url = config.sts_url if urlsplit(config.sts_url).path else f"{config.sts_url}/"
        where = sigv4.Where(config.region, "sts")
        plain = {"content-type": "application/x-www-form-urlencoded"}
        headers = sigv4.authorization("POST", url, plain, body, keys, where, ask.now_ms)
        answer = await outgoing.ask("POST", url, ca_file=config.ca_file, headers=headers, content=body)
        found = _credentials(answer)
        made = S3Read(
            access_key_id=found["AccessKeyId"],
            secret_access_key=found["SecretAccessKey"],
            session_token=found["SessionToken"],
            region=config.region,
            endpoint=intent.endpoint,
        )
        return Made(material=made, expires_at_ms=_ms(found["Expiration"]))


class S3Presign:
    """`https_signed_url` for an object of an S3 store: no request goes out, the key signs here (X25)."""

    def __init__(self, config: S3PresignConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        assert isinstance(ask.intent, UrlIntent)
        keys = _keys(self._config.secret_file, self.name)
        seconds = min(ask.seconds, sigv4.MAX_PRESIGNED_S)
        url = sigv4.presigned(ask.intent.url, seconds, keys, sigv4.Where(self._config.region, "s3"), ask.now_ms)
        return Made(material=SignedUrl(url=url), expires_at_ms=ask.now_ms + seconds * 1000)


def session_policy(intent: S3Intent, deadline_ms: int) -> dict[str, Any]:
    """Read of exactly what was asked for. An STS session lasts 900 s at least, so the deadline stands here too."""
    objects = intent.prefix if intent.prefix and not intent.prefix.endswith("/") else f"{intent.prefix}*"
    until = {"DateLessThan": {"aws:CurrentTime": _iso(deadline_ms)}}
    bucket = f"arn:aws:s3:::{intent.bucket}"
    listing = until | {"StringLike": {"s3:prefix": [objects]}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{bucket}/{objects}"], "Condition": until},
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket], "Condition": listing},
        ],
    }


def _keys(path: str, name: str) -> sigv4.Keys:
    keys: sigv4.Keys = outgoing.decoded_secret(read_private(Path(path)), sigv4.Keys, name)
    return keys


def _credentials(body: bytes) -> dict[str, str]:
    """The four texts wanted, from the XML. Expat reads no external entities, and declarations end it."""
    found: dict[str, str] = {}
    name: list[str] = []
    parser = xml.parsers.expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise error("minter_failed", "the STS answered with a document type")

    def text(data: str) -> None:
        if name and name[-1] in _WANTED:
            found[name[-1]] = found.get(name[-1], "") + data

    parser.StartElementHandler = lambda tag, _: name.append(tag)
    parser.EndElementHandler = lambda _: name.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except xml.parsers.expat.ExpatError:
        raise error("minter_failed", "the STS answered with what is no XML") from None
    if missing := [wanted for wanted in _WANTED if not found.get(wanted)]:
        raise error("minter_failed", f"the STS's answer lacks {missing[0]}")
    return found


def _iso(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ms(text: str) -> int:
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise error("minter_failed", "the STS's answer names no time of expiry") from None
