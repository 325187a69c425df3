"""What a job serves in tests of the endpoint proxy; standard library only, started by the system's Python.

Paths: /echo what was asked, /up digest of the body, /big bytes, /events server-sent, /die ends in mid-answer,
/silent never answers, /twice echoes a body while it comes, /odd headers that speak of an origin.
"""

import hashlib
import http.client
import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ["HOSTLER_PORT_WEB"])


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["HOSTLER_CONTROLLER_ADDRESS"].removeprefix("unix://"))


def register(name, port):
    api = Unix("task")
    body = json.dumps({"name": name, "address": f"127.0.0.1:{port}", "lease_ms": 600_000})
    api.request("PUT", f"/v1/endpoints/{name}-id", body, {"content-type": "application/json"})
    answer = api.getresponse()
    print("registered", name, answer.status, answer.read().decode(), flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            yield self.rfile.read(int(self.headers.get("content-length") or 0))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def say(self, data, **headers):
        self.send_response(200)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def begin_chunks(self, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def serve(self):
        path = self.path.partition("?")[0]
        if path.startswith("/up"):
            digest = hashlib.sha256()
            for data in self.body():
                digest.update(data)
            self.say(digest.hexdigest().encode())
        elif path == "/big":
            self.say(b"b" * int(self.path.partition("?")[2]))
        elif path == "/flood":
            self.begin_chunks("application/octet-stream")
            while True:
                self.chunk(b"f" * 65536)
                Handler.flooded += 65536
        elif path == "/flooded":
            self.say(str(Handler.flooded).encode())
        elif path == "/events":
            self.begin_chunks("text/event-stream")
            for number in range(3):
                self.chunk(b"data: %d\n\n" % number)
                time.sleep(0.3)
            self.chunk(b"")
        elif path == "/die":
            self.begin_chunks("text/plain")
            self.chunk(b"half")
            time.sleep(0.2)
            os._exit(7)
        elif path == "/silent":
            time.sleep(600)
        elif path == "/twice":
            self.begin_chunks("text/plain")
            for data in self.body():
                self.chunk(data)
            self.chunk(b"")
        elif path == "/odd":
            self.say(b"odd", set_cookie="a=b", access_control_allow_origin="*", location=f"http://127.0.0.1:{PORT}/to")
        else:
            body = b"".join(self.body()).decode()
            said = {
                "method": self.command,
                "path": self.path,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": body,
                "peer": self.client_address[1],
            }
            self.say(b"" if self.command == "HEAD" else json.dumps(said).encode())

    flooded = 0

    def log_message(self, *_):
        pass


for verb in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
    setattr(Handler, f"do_{verb}", Handler.serve)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    register("web", PORT)
    if "HOSTLER_PORT_DEAF" in os.environ:
        register("deaf", int(os.environ["HOSTLER_PORT_DEAF"]))
    sys.stdin.close()
    while True:
        time.sleep(60)
