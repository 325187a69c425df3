"""What the agent's two processes say to each other: strictly typed msgpack behind a length, over a unix socket."""

import asyncio
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.wire.node import CatalogUpdate, Close, FromControl, KeysetUpdate, ReportAck, Tasks, Welcome, WorkerPolicy
from hostler.wire.relay import RelayFrame

MAX_FRAME = 32 * 1024 * 1024  # above the longest message that gRPC takes
_HEADER = 4


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to be this node, and whom to believe. Without a key for enrolment and recovery."""

    trust_domain: str
    ca_pems: tuple[str, ...]
    key_pem: bytes = b""
    chain_pem: bytes = b""

    def __repr__(self) -> str:
        return f"Tls({self.trust_domain})"  # never the key


class _Frame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    pass


class OpenLink(_Frame, frozen=True, kw_only=True):
    """→ outside: dial and speak; `hello` goes first. Messages are serialized `AgentMessage`s."""

    link: int
    tls: Tls
    address: str
    polls: bool
    hello: bytes


class Send(_Frame, frozen=True, kw_only=True):
    """→ outside."""

    link: int
    messages: tuple[bytes, ...]


class CloseLink(_Frame, frozen=True, kw_only=True):
    """→ outside."""

    link: int


class Ask(_Frame, frozen=True, kw_only=True):
    """→ outside: one unary call."""

    call: int
    tls: Tls
    address: str
    method: str
    request: bytes
    timeout_s: float


class Pull(_Frame, frozen=True, kw_only=True):
    """→ outside: one call whose answer is a stream. No more than `credit` messages come before `More` is said."""

    call: int
    tls: Tls
    address: str
    method: str
    request: bytes
    credit: int


class More(_Frame, frozen=True, kw_only=True):
    """→ outside: `count` messages of a `Pull` were taken."""

    call: int
    count: int


class Drop(_Frame, frozen=True, kw_only=True):
    """→ outside: nobody reads that `Pull` any more."""

    call: int


class OpenRelay(_Frame, frozen=True, kw_only=True):
    """→ outside: dial and open the relay of that id."""

    relay: int
    tls: Tls
    address: str
    relay_id: str


class CloseRelay(_Frame, frozen=True, kw_only=True):
    """→ outside."""

    relay: int


class Relayed(_Frame, frozen=True, kw_only=True):
    """Both ways: one frame of a relay."""

    relay: int
    frame: RelayFrame


class RelayGone(_Frame, frozen=True, kw_only=True):
    """→ runner: the relay's stream is no more."""

    relay: int
    error_code: str
    message: str


class Ready(_Frame, frozen=True, kw_only=True):
    """→ runner: up, without privileges, and waiting."""

    uid: int


class Received(_Frame, frozen=True, kw_only=True):
    """→ runner: one message of the control plane, of the type named."""

    link: int
    name: str
    value: msgspec.Raw


class Ended(_Frame, frozen=True, kw_only=True):
    """→ runner: the link is gone."""

    link: int
    error_code: str
    message: str
    hint: str = ""


class Piece(_Frame, frozen=True, kw_only=True):
    """→ runner: one message of a `Pull`, in order. An `Answer` ends them."""

    call: int
    data: bytes


class Answer(_Frame, frozen=True, kw_only=True):
    """→ runner: what came of an `Ask`: a serialized response, or an error. Of a `Pull`: its end, or an error."""

    call: int
    response: bytes = b""
    error_code: str = ""
    message: str = ""
    hint: str = ""


ToOutside = OpenLink | Send | CloseLink | Ask | Pull | More | Drop | OpenRelay | CloseRelay | Relayed
ToRunner = Ready | Received | Ended | Piece | Answer | Relayed | RelayGone

_FROM_CONTROL: dict[str, Any] = {
    type_.__name__: type_ for type_ in (Tasks, CatalogUpdate, KeysetUpdate, WorkerPolicy, ReportAck, Welcome, Close)
}
_encoder = msgspec.msgpack.Encoder()
TO_OUTSIDE: "msgspec.msgpack.Decoder[ToOutside]" = msgspec.msgpack.Decoder(ToOutside)
TO_RUNNER: "msgspec.msgpack.Decoder[ToRunner]" = msgspec.msgpack.Decoder(ToRunner)


def received(link: int, value: FromControl) -> Received:
    return Received(link=link, name=type(value).__name__, value=msgspec.Raw(_encoder.encode(value)))


def value_of(frame: Received) -> FromControl:
    """Raises `malformed_envelope` for anything that is no message of a control plane."""
    try:
        value: FromControl = msgspec.msgpack.decode(frame.value, type=_FROM_CONTROL[frame.name])
    except (KeyError, msgspec.MsgspecError) as err:
        raise error("malformed_envelope", "the network process passed on what is no message") from err
    return value


def write(writer: asyncio.StreamWriter, frame: ToOutside | ToRunner) -> None:
    data = _encoder.encode(frame)
    writer.write(len(data).to_bytes(_HEADER) + data)


async def read(reader: asyncio.StreamReader, decoder: Any) -> Any:
    """The next frame, or None at the end of the stream.

    Raises:
        HostlerError: `malformed_envelope` for a frame that is too long or not one of ours.
    """
    try:
        size = int.from_bytes(await reader.readexactly(_HEADER))
        if size > MAX_FRAME:
            raise error("malformed_envelope", f"a frame of {size} bytes between the agent's processes")
        return decoder.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except msgspec.MsgspecError as err:
        raise error("malformed_envelope", "a frame between the agent's processes is not one of ours") from err
