"""`[[minters]]` of control.toml: one strict struct for each kind of minter, told apart by `backend`."""

from typing import Annotated, ClassVar

import msgspec

from hostler.catalog.credentials import Intent, JoinIntent, source_of
from hostler.catalog.policy import covers

ANY = "*"
Https = Annotated[str, msgspec.Meta(pattern=r"^https://[^\s@?#]+$(?!\n)", max_length=2048)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a project may be issued. `*` stands for every tenant or project, and for nothing else.

    Attributes:
        sources: URL prefixes, as in `allowed_artifact_sources`: what is issued opens nothing outside them.
        clusters: names of clusters, for `cluster_join_token`.
    """

    org: Text
    project: Text
    sources: tuple[Https, ...] = ()
    clusters: tuple[Text, ...] = ()

    def allows(self, org_id: str, project_id: str, intent: Intent) -> bool:
        if self.org not in (ANY, org_id) or self.project not in (ANY, project_id):
            return False
        if isinstance(intent, JoinIntent):
            return intent.cluster in self.clusters
        return any(covers(prefix, source_of(intent)) for prefix in self.sources)


class _Minter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="backend"):
    """Attributes:
    secret_file: where its own long-lived secret lives: mode 0600, read anew for each mint.
    ca_file: PEM of the CA of the issuer's server; "" for the system's.
    """

    TYPE: ClassVar[str] = ""

    name: Text
    secret_file: Text
    scopes: tuple[Scope, ...]
    ca_file: str = ""

    @property
    def cluster(self) -> str:
        return ""


class RegistryTokenConfig(_Minter, frozen=True, kw_only=True, tag="registry_token"):
    """An OCI registry's token server; the secret is the password of `username`."""

    TYPE = "oci_pull"

    token_url: Https
    service: Text
    username: Text


class AwsStsConfig(_Minter, frozen=True, kw_only=True, tag="aws_sts"):
    """AssumeRole with a session policy; the secret is JSON with access_key_id and secret_access_key."""

    TYPE = "s3_read"

    sts_url: Https
    region: Text
    role_arn: Text


class GcsConfig(_Minter, frozen=True, kw_only=True, tag="gcs_downscope"):
    """A service account's token, exchanged for one that reads one prefix; the secret is the account's JSON key."""

    TYPE = "gcs_read"

    token_url: Https = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
    sts_url: Https = "https://sts.googleapis.com/v1/token"


class ReadTokenConfig(_Minter, frozen=True, kw_only=True, tag="read_token"):
    """A hub's read token, handed out as it is: hubs issue none for a shorter time."""

    TYPE = "hf_token"


class KubeadmConfig(_Minter, frozen=True, kw_only=True, tag="kubeadm"):
    """A bootstrap token of a Kubernetes cluster; the secret is a bearer token that may create it.

    Attributes:
        server: API server, as nodes reach it.
        ca_file: of the API server; nodes are told its digest.
    """

    TYPE = "cluster_join_token"

    cluster_name: Text
    server: Https

    @property
    def cluster(self) -> str:
        return self.cluster_name


class SlurmKeyConfig(_Minter, frozen=True, kw_only=True, tag="slurm_key"):
    """The secret is the cluster's munge.key or slurm.key."""

    TYPE = "cluster_join_token"

    cluster_name: Text
    controllers: tuple[Text, ...]

    @property
    def cluster(self) -> str:
        return self.cluster_name


class RayTokenConfig(_Minter, frozen=True, kw_only=True, tag="ray_token"):
    """The secret is the cluster's token; `address` is the head's `host:port`."""

    TYPE = "cluster_join_token"

    cluster_name: Text
    address: Text

    @property
    def cluster(self) -> str:
        return self.cluster_name


class S3PresignConfig(_Minter, frozen=True, kw_only=True, tag="s3_presign"):
    """A signed GET of one object; the secret is JSON with access_key_id and secret_access_key."""

    TYPE = "https_signed_url"

    region: Text


class CloudFrontConfig(_Minter, frozen=True, kw_only=True, tag="cloudfront"):
    """A signed URL with a canned policy; the secret is the RSA private key (PEM) of `key_pair_id`."""

    TYPE = "https_signed_url"

    key_pair_id: Text


MinterConfig = (
    RegistryTokenConfig
    | AwsStsConfig
    | GcsConfig
    | ReadTokenConfig
    | KubeadmConfig
    | SlurmKeyConfig
    | RayTokenConfig
    | S3PresignConfig
    | CloudFrontConfig
)
