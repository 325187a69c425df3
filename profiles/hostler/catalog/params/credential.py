"""Parameters of `credential.mint`."""

from typing import Annotated, Any

import msgspec

from hostler.catalog.credentials import intent_of, source_of


class Mint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Obtains one short-lived credential for later steps of the same task; its output is a handle, never the value.

    Attributes:
        credential_type: oci_pull, s3_read, gcs_read, hf_token, cluster_join_token or https_signed_url.
        intent: what the credential shall open: registry, bucket, repository, cluster or URL, as the type asks. Values
            may be inputs, never outputs of steps.
        for_steps: ids of the later steps that may use it, and nobody else.
        part: one field of the material alone, such as `token`, for a command that takes it as it is; "" for all of it
            as JSON.
    """

    credential_type: str
    intent: dict[str, Any]
    for_steps: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=16)]
    part: Annotated[str, msgspec.Meta(max_length=64)] = ""

    @property
    def source(self) -> str:
        """The prefix of URLs that the credential opens; "" for none. Raises as `intent_of`."""
        return source_of(intent_of(self.credential_type, self.intent, code="binding_error"))
