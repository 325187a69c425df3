"""What the steps that fetch have in common: the allow-lists, the owner of a transfer, a registry's secrets."""

import os
from functools import partial

from hostler.agent.fetch.blob import Owner
from hostler.agent.oci.registry import Access
from hostler.agent.secrets.material import material
from hostler.agent.secrets.table import StepSecrets
from hostler.agent.steps.contract import StepContext, StepView
from hostler.base.errors import HostlerError, error
from hostler.catalog.credentials import OciPull


def allowed(view: StepView, url: str) -> bool:
    """Whether everything that limits sources admits a URL (AR-06)."""
    return view.may_fetch(url)


def refuse_source(view: StepView, url: str) -> None:
    """Raises `source_denied`; says a URL without its query."""
    if not allowed(view, url):
        raise error("source_denied", f"{url.partition('?')[0]} is not among the allowed sources")


def named(view: StepView, url: str) -> bool:
    """Whether some allow-list names a URL outright, and none forbids it."""
    lists = [one for one in (view.policy.allowed_artifact_sources, view.allowed_sources) if one is not None]
    return bool(lists) and view.may_fetch(url)


def most_bytes(view: StepView, own: int) -> int:
    """The smaller of the policy's limit and the step's; 0 for none."""
    limits = [most for most in (view.policy.max_artifact_size_bytes, own) if most]
    return min(limits, default=0)


def owner_of(context: StepContext) -> Owner:
    return Owner(
        settings=context.host.fetch,
        clock=context.host.clock,
        deadline=context.deadline,
        cancelled=context.cancelled,
        progress=lambda done, total: context.progress(done, total, "bytes"),
        note=lambda text: context.log("agent", text),
        saved=context.checkpoint,
        save=context.save_checkpoint,
    )


def access_of(context: StepContext, credential: str) -> Access:
    """How this step may ask a registry."""
    vault = StepVault(context.secrets, credential)
    return Access(allowed=partial(allowed, context), named=partial(named, context), vault=vault)


class StepVault:
    """The credential a step was given, and the token a registry gave for it: both live in the task's secret table,
    which keeps them out of log lines and wipes them at the end."""

    def __init__(self, secrets: StepSecrets, handle: str) -> None:
        self._secrets, self._handle = secrets, handle
        self._token = ""

    def login(self) -> OciPull | None:
        """Raises `unknown_handle`, `credential_mismatch`."""
        return material(self._secrets, self._handle, OciPull) if self._handle else None

    def keep(self, token: bytearray, lifetime_s: float) -> None:
        from hostler.agent.secrets.secret import Secret  # an idle agent carries no ctypes for secrets it does not have

        steps = frozenset({self._secrets.step_id})
        self._token = self._secrets.put(Secret.take(token), steps=steps, lifetime_s=lifetime_s)

    def token(self) -> str:
        """That of the registry; the one that was minted, where that is a token; "" for none, or one that expired."""
        if self._token:
            try:
                fd = self._secrets.use(self._token).descriptor()
            except HostlerError:  # expired: the registry will ask again
                self._token = ""
                return ""
            try:
                return os.read(fd, 65_536).decode("ascii", "replace")
            finally:
                os.close(fd)
        login = self.login()
        return login.token if login is not None else ""
