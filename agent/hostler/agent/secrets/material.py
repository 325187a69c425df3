"""Reads a minted credential out of a step secret, for the steps that use it themselves.

    credential = material(context.secrets, params.credential, S3Read)

The bytes it passes through are wiped. The strings it returns cannot be: keep them for one request, and in no
attribute, closure or message.
"""

import os
from typing import TypeVar

import msgspec

from hostler.agent.secrets.table import StepSecrets
from hostler.base.errors import error

T = TypeVar("T")


def material(secrets: StepSecrets, handle: str, type_: type[T]) -> T:
    """The material behind a handle, as the struct of its type in `hostler.catalog.credentials`.

    Raises:
        HostlerError: `unknown_handle`, or `credential_mismatch` for a credential of another type.
    """
    fd = secrets.use(handle).descriptor()
    try:
        room = bytearray(os.fstat(fd).st_size)
        os.readv(fd, [room])
    finally:
        os.close(fd)
    try:
        return msgspec.json.decode(room, type=type_)
    except msgspec.MsgspecError:
        # not chained: the cause may quote the bytes
        message = f"step {secrets.step_id} was given a credential of another type than it takes"
        raise error("credential_mismatch", message) from None
    finally:
        room[:] = bytes(len(room))
