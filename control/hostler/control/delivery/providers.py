"""Every machine provider, by the name a request gives it."""

from hostler.base.errors import error
from hostler.control.delivery.cloud_init import CloudInit
from hostler.control.delivery.contract import Provider
from hostler.control.delivery.maas import Maas

PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in (CloudInit(), Maas())}
DEFAULT = CloudInit.name


def provider_named(name: str) -> Provider:
    """Raises `invalid_request`."""
    found = PROVIDERS.get(name or DEFAULT)
    if found is None:
        raise error("invalid_request", f"{name!r} is none of {', '.join(PROVIDERS)}", pointer="/provider")
    return found
