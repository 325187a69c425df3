"""What the operator of a node decides about transfers: `[fetch]` of the agent's configuration."""

import msgspec


class FetchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults suit a data centre.

    Attributes:
        ca_file: PEM file of further certificate authorities, beside the system's; "" for none.
        allow_private: whether a source may resolve to an address that is not globally reachable.
        min_rate_bytes_per_s: a body slower than this over `rate_window_seconds` is cut off and
            counts as a failed try.
        disk_reserve_bytes: free space a transfer leaves to others.
        mark_bytes, mark_seconds: how much is transferred again, at most, after a crash.
        ctr, containerd_socket: containerd's own client and where containerd listens.
        docker_socket: where the Docker Engine listens.
    """

    ca_file: str = ""
    allow_private: bool = True
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 60.0
    min_rate_bytes_per_s: int = 16_384
    rate_window_seconds: float = 30.0
    max_redirects: int = 5
    backoff_base_seconds: float = 0.5
    backoff_cap_seconds: float = 30.0
    disk_reserve_bytes: int = 268_435_456
    mark_bytes: int = 67_108_864
    mark_seconds: float = 2.0
    ctr: str = "/usr/bin/ctr"
    containerd_socket: str = "/run/containerd/containerd.sock"
    docker_socket: str = "/run/docker.sock"
