"""How each type of source is asked for: its URL, what it is called over its attempts, what a request carries (AR-03).

The credential is read from the task's secrets for each request anew and held in nothing; it goes to the source's own
host and to nobody a redirect names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hostler.agent.fetch.connection import NOTHING, Headers, Target, no_headers, target_of
from hostler.agent.fetch.sigv4 import signed_headers
from hostler.agent.secrets.material import material
from hostler.agent.steps.contract import StepContext
from hostler.base.errors import error
from hostler.catalog.credentials import GcsRead, HfToken, S3Read, SignedUrl
from hostler.catalog.params.artifact import PullBlob
from hostler.catalog.sources import GcsObject, HubFile, S3Object, SignedHttps, must_have_one


@dataclass(frozen=True)
class Asked:
    """Attributes:
    url: what is asked for; a secret where `identity` is set.
    identity: what the object is called in checkpoints, where that is not its URL.
    """

    url: str
    identity: str = ""
    headers: Headers = no_headers


def asked_of(context: StepContext) -> Asked:
    """Raises `source_denied`, `credential_mismatch`, `unknown_handle`."""
    params: PullBlob = context.params
    url, source, handle = must_have_one(params.url, params.source), params.source, params.credential
    if isinstance(source, SignedHttps):
        return Asked(_signed(context, source, handle), identity=url)
    if not handle:
        return Asked(url)
    if source is None:
        raise error("credential_mismatch", "a plain url takes no credential: name the type of its source")
    home = target_of(url)
    if isinstance(source, S3Object):
        return Asked(url, headers=_only_at(home, lambda target: _s3(context, source, target)))
    return Asked(url, headers=_only_at(home, lambda _: _bearer(context, source)))


def _only_at(home: Target, make: Callable[[Target], Mapping[str, str]]) -> Headers:
    return lambda target: make(target) if target.origin == home.origin else NOTHING


def _signed(context: StepContext, source: SignedHttps, handle: str) -> str:
    if not handle:
        raise error("credential_mismatch", "a signed URL comes from a credential, and none is named")
    url = material(context.secrets, handle, SignedUrl).url
    if url.partition("?")[0] != source.base or "#" in url:
        raise error("credential_mismatch", f"the signed URL is for something else than {source.base}")
    return url


def _s3(context: StepContext, source: S3Object, target: Target) -> Mapping[str, str]:
    key = material(context.secrets, context.params.credential, S3Read)
    if key.endpoint != source.endpoint or (source.region and key.region != source.region):
        raise error("credential_mismatch", f"the credential is for another store than {source.endpoint}")
    return signed_headers(
        host=target.host if target.port == 443 else f"{target.host}:{target.port}",
        path=target.path.partition("?")[0],
        region=key.region,
        access_key=key.access_key_id,
        secret_key=key.secret_access_key,
        session_token=key.session_token,
        at_ms=context.host.clock.now_ms(),
    )


def _bearer(context: StepContext, source: GcsObject | HubFile) -> Mapping[str, str]:
    type_: type[GcsRead | HfToken] = GcsRead if isinstance(source, GcsObject) else HfToken
    return {"Authorization": f"Bearer {material(context.secrets, context.params.credential, type_).token}"}
