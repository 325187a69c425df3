"""What a running task may ask of the control plane through its node: method → body, both as JSON.

The node says for which attempt it asks; the control plane looks whether that attempt is open on the node whose
certificate the call carries (`stale_attempt` otherwise). Nothing of a body says who asks.
"""

from typing import Annotated, Any

import msgspec

MAX_BODY = 1_100_000  # a MiB from the task, and what its node puts around it
MAX_WAIT_S = 30
Text = Annotated[str, msgspec.Meta(max_length=256)]
JobId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Nothing(_Body, frozen=True):
    pass


class Register(_Body, frozen=True, kw_only=True):
    """The last two are the agent's word, never the task's."""

    endpoint_id: Text
    name: Text
    address: Annotated[str, msgspec.Meta(max_length=300)]
    metadata: dict[Text, Annotated[str, msgspec.Meta(max_length=4096)]] = {}
    lease_ms: Count = 0
    node_address: Text = ""
    ports: Annotated[tuple[Port, ...], msgspec.Meta(max_length=64)] = ()


class Unregister(_Body, frozen=True, kw_only=True):
    endpoint_id: Text


class List(_Body, frozen=True, kw_only=True):
    """In a namespace, or in that of a job (path or id); in the task's own for neither. `name` is exact, "" for all."""

    namespace: Annotated[str, msgspec.Meta(max_length=1100)] = ""
    job: Annotated[str, msgspec.Meta(max_length=1100)] = ""
    name: Text = ""


class Submit(_Body, frozen=True, kw_only=True):
    """A child of the task's job. `spec` is a `hostler.catalog.job.JobSpec`; the same key gives the same job."""

    spec: dict[str, Any]
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class Show(_Body, frozen=True, kw_only=True):
    job_id: JobId


class Wait(_Body, frozen=True, kw_only=True):
    job_id: JobId
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = MAX_WAIT_S


class Cancel(_Body, frozen=True, kw_only=True):
    job_id: JobId


class Progress(_Body, frozen=True, kw_only=True):
    """Shown to whoever follows the job; the newest counts, and none is kept."""

    done: Count
    total: Count = 0
    unit: Annotated[str, msgspec.Meta(max_length=32)] = ""
    note: Text = ""


BODIES: dict[str, type[_Body]] = {
    "context": Nothing,
    "keys": Nothing,
    "endpoints.register": Register,
    "endpoints.unregister": Unregister,
    "endpoints.list": List,
    "jobs.submit": Submit,
    "jobs.show": Show,
    "jobs.wait": Wait,
    "jobs.cancel": Cancel,
    "progress": Progress,
}
