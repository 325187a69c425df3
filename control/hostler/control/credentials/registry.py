"""Which minter issues what, and to whom."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hostler.base.errors import error
from hostler.catalog.credentials import JoinIntent
from hostler.control.credentials import config as configs
from hostler.control.credentials.contract import Ask, Minter
from hostler.pki.storage import read_private, read_public


def _registry_token(config: Any) -> Minter:
    from hostler.control.credentials.registry_token import RegistryToken

    return RegistryToken(config)


def _aws(name: str) -> Callable[[Any], Minter]:
    def build(config: Any) -> Minter:
        from hostler.control.credentials import aws

        made: Minter = getattr(aws, name)(config)
        return made

    return build


def _gcs(config: Any) -> Minter:
    from hostler.control.credentials.gcs import GcsDownscope

    return GcsDownscope(config)


def _kubeadm(config: Any) -> Minter:
    from hostler.control.credentials.kubeadm import Kubeadm

    return Kubeadm(config)


def _cloudfront(config: Any) -> Minter:
    from hostler.control.credentials.cloudfront import CloudFront

    return CloudFront(config)


def _files(name: str) -> Callable[[Any], Minter]:
    def build(config: Any) -> Minter:
        from hostler.control.credentials import files

        made: Minter = getattr(files, name)(config)
        return made

    return build


# A control plane loads the minters that it is configured with, and no others.
_BACKENDS: dict[type, Callable[[Any], Minter]] = {
    configs.RegistryTokenConfig: _registry_token,
    configs.AwsStsConfig: _aws("AwsSts"),
    configs.S3PresignConfig: _aws("S3Presign"),
    configs.GcsConfig: _gcs,
    configs.KubeadmConfig: _kubeadm,
    configs.CloudFrontConfig: _cloudfront,
    configs.ReadTokenConfig: _files("ReadToken"),
    configs.SlurmKeyConfig: _files("SlurmKey"),
    configs.RayTokenConfig: _files("RayToken"),
}


class Minters:
    """All that are configured, in their order; the first that may issue what is asked for does."""

    def __init__(self, wanted: Sequence[configs.MinterConfig]) -> None:
        """Raises `invalid_config` for a name used twice, or a secret file that others can read."""
        names = [config.name for config in wanted]
        for config in wanted:
            if names.count(config.name) > 1:
                raise error("invalid_config", f"two minters are named {config.name!r}")
            read_private(Path(config.secret_file))
            if config.ca_file:
                read_public(Path(config.ca_file))
            elif isinstance(config, configs.KubeadmConfig):
                raise error("invalid_config", f"minter {config.name} needs the ca_file of its cluster")
        self._minters = [(config, _BACKENDS[type(config)](config)) for config in wanted]

    def for_(self, ask: Ask) -> Minter:
        """Raises `no_minter`."""
        for config, minter in self._minters:
            if ask.credential_type == config.TYPE and _allows(config, ask):
                return minter
        raise error("no_minter", f"project {ask.project_id} may be issued no {ask.credential_type} for this")


def _allows(config: configs.MinterConfig, ask: Ask) -> bool:
    if isinstance(ask.intent, JoinIntent) and ask.intent.cluster != config.cluster:
        return False
    return any(scope.allows(ask.org_id, ask.project_id, ask.intent) for scope in config.scopes)
