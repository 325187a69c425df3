"""gRPC statuses as our errors: the code travels in the trailing metadata."""

from typing import Any

from hostler.base.codes import CODES
from hostler.base.errors import HostlerError, error

CODE_KEY = "hostler-error-code"
HINT_KEY = "hostler-error-hint"


def as_hostler_error(err: Any, address: str) -> HostlerError:
    """The control plane's own error, or `controller_unreachable` where it gave none."""
    metadata = dict(err.trailing_metadata() or ())
    code, hint = str(metadata.get(CODE_KEY, "")), str(metadata.get(HINT_KEY, ""))
    if code in CODES:
        return error(code, err.details() or CODES[code].meaning, hint=hint)
    if err.code().name == "UNIMPLEMENTED":
        return error("method_not_allowed", f"{address} answers, and does not know this call")
    reason = (err.details() or err.code().name).splitlines()[0][:200]
    return error("controller_unreachable", f"no answer from {address}: {reason}")
