"""Runs `hostler-control` out of the image, in the place of the program: the same arguments, the same directory.

    python tests/support/in_image.py SOCKET IMAGE serve --config HOME/control.toml

Ends with the container's exit status; SIGTERM stops the container. HOME is a house's directory; what the control plane
writes there belongs to the image's user.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

USER = 61_112
OURS = ("control", "pki/control", "control.toml", "admin.token", "")


class Engine:
    def __init__(self, path: str) -> None:
        self._path = path

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("docker", timeout=300)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self._path)
        try:
            data = json.dumps(body) if body is not None else None
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
            if answer.status >= 400:
                raise SystemExit(f"{method} {path}: {answer.status} {read.decode()[:500]}")
            return json.loads(read) if read[:1] in (b"{", b"[") else read
        finally:
            connection.close()


def give(home: Path) -> None:
    """To the user that the image runs as; the rest of the house stays root's."""
    (home / "control").mkdir(exist_ok=True, mode=0o700)
    for name in OURS:
        path = home / name
        if path.exists():
            os.chown(path, USER, USER)
            if name:
                for below in path.rglob("*") if path.is_dir() else ():
                    os.chown(below, USER, USER)


def main(arguments: list[str]) -> int:
    address, image, *words = arguments
    home = Path(words[words.index("--config") + 1]).parent
    give(home)
    engine = Engine(address)
    settings = {"NetworkMode": "host", "Binds": [f"{home}:{home}"], "ReadonlyRootfs": True, "CapDrop": ["ALL"]}
    made = engine.call("POST", "/containers/create", {"Image": image, "Cmd": words, "HostConfig": settings})
    name = made["Id"]

    def stop(*_: object) -> None:
        engine.call("POST", f"/containers/{name}/stop?t=20")

    signal.signal(signal.SIGTERM, stop)
    engine.call("POST", f"/containers/{name}/start")
    status: int = engine.call("POST", f"/containers/{name}/wait")["StatusCode"]
    told = engine.call("GET", f"/containers/{name}/logs?stdout=1&stderr=1")
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(told if isinstance(told, bytes) else json.dumps(told).encode())
    engine.call("DELETE", f"/containers/{name}?force=1")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
