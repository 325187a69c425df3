"""What flows beside the task stream: bytes of one interactive session, and what keeps them bounded."""

import msgspec

STDIN, STDOUT, STDERR = 0, 1, 2
WINDOW = 262_144  # bytes that may be under way in one direction
CHUNK = 32_768  # the longest data of one frame
BEAT_S = 1.0
SILENT_S = 4.0  # without a frame for so long the other end is gone


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    pass


class RelayOpen(_Frame, frozen=True):
    """The agent's first."""

    relay_id: str


class RelayData(_Frame, frozen=True):
    """Never more than the receiver has granted."""

    stream: int
    data: bytes


class RelayWindow(_Frame, frozen=True):
    """Grants so many bytes more; the first one from above says that a client is there."""

    bytes: int


class RelayResize(_Frame, frozen=True):
    rows: int
    columns: int


class RelayEnd(_Frame, frozen=True):
    """Downwards the end of the input, upwards the end of everything. No `error_code`: the command ended by itself."""

    exit_code: int = 0
    error_code: str = ""
    message: str = ""


class RelayBeat(_Frame, frozen=True):
    pass


RelayFrame = RelayOpen | RelayData | RelayWindow | RelayResize | RelayEnd | RelayBeat
