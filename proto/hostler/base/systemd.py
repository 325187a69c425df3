"""The two lines systemd wants to hear: READY=1, and WATCHDOG=1 while the loop turns."""

import os
import socket


def notify(state: str) -> None:
    """Sends `state` to the service manager; does nothing without one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        sock.sendall(state.encode())


def watchdog_interval_s() -> float:
    """Half of what the unit allows; 0 without a watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "0")
    return int(microseconds) / 2_000_000 if microseconds.isdigit() else 0.0
