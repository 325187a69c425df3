"""What somebody on the network can do to an actor: nothing without a key, and nothing twice (OD-32)."""

import contextlib
import http.client
import json
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from hostler.sdk import actors, payload, signing
from hostler.sdk.actors import MAX_BODY, ActorServer
from hostler.sdk.context import context
from hostler.sdk.errors import SdkError
from hostler.sdk.handles import ActorHandle, _refusal
from hostler.sdk.info import JobInfo, inside
from hostler.sdk.local import LocalHouse
from hostler.sdk.signing import NAMESPACE, PROJECT, CallHead, Keys
from support.ports import next_port

HERE = JobInfo(job_id="op_1", task_id="tsk_1", attempt_uid="att_1")
KEYS = Keys(b"p" * 32, b"n" * 32)
LOADED: list[str] = []


class Target:
    value = 7

    def add(self, number: int) -> int:
        return number + 1

    def _private(self) -> int:
        return 1


class Bomb:
    def __reduce__(self) -> Any:
        return LOADED.append, ("boom",)


@pytest.fixture
def server() -> Iterator[ActorServer]:
    LOADED.clear()
    with inside(HERE), ActorServer("127.0.0.1", keys=KEYS, pickle=True) as made:
        made.register("target", Target())
        made.serve_background()
        yield made


def head(body: bytes, **changes: Any) -> CallHead:
    said: dict[str, Any] = {
        "audience": "att_1", "actor": "target", "method": "add", "media_type": payload.JSON, "key": PROJECT,
        "nonce": f"{time.monotonic_ns()}", "time": f"{time.time()}", "body_sha256": signing.sha256(body),
    }  # fmt: skip
    return CallHead(**(said | changes))


def send(
    server: ActorServer, said: CallHead, body: bytes, signature: str, path: str = "", **headers: str
) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    shown = {
        "content-type": said.media_type, "x-hostler-audience": said.audience, "x-hostler-key": said.key,
        "x-hostler-nonce": said.nonce, "x-hostler-time": said.time, "x-hostler-sha256": said.body_sha256,
        "x-hostler-signature": signature, **{name.replace("_", "-"): value for name, value in headers.items()},
    }  # fmt: skip
    try:
        connection.request("POST", path or f"/v1/actors/{said.actor}/{said.method}", body, shown)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("x-hostler-signature", "")
    finally:
        connection.close()


CALL = json.dumps({"args": [1], "kwargs": {}}).encode()


def test_a_signed_call_is_answered_with_a_signature_over_the_answer(server: ActorServer) -> None:
    said = head(CALL)
    status, data, proof = send(server, said, CALL, said.signed(KEYS.project))
    assert (status, json.loads(data)) == (200, {"result": 2})
    assert proof == signing.answer_signature(KEYS.project, said.nonce, 200, payload.JSON, data)


@pytest.mark.parametrize("key", [b"", b"x" * 32, KEYS.namespace])
def test_a_call_with_another_key_or_none_is_refused_and_its_answer_proves_nothing(server, key: bytes) -> None:
    said = head(CALL)
    status, _, proof = send(server, said, CALL, said.signed(key) if key else "")
    assert (status, proof) == (403, "")


@pytest.mark.parametrize("kind", ["", "other"])
def test_a_key_that_there_is_not_signs_nothing(server: ActorServer, kind: str) -> None:
    said = head(CALL, key=kind)
    assert send(server, said, CALL, said.signed(b""))[0] == 403


def test_a_recorded_call_counts_once(server: ActorServer) -> None:
    said = head(CALL)
    assert send(server, said, CALL, said.signed(KEYS.project))[0] == 200
    assert send(server, said, CALL, said.signed(KEYS.project))[0] == 403


def test_a_call_for_another_task_or_of_another_time_is_refused(server: ActorServer) -> None:
    for change in (
        {"audience": "att_2"},
        {"audience": "tsk_1"},
        {"audience": ""},
        {"time": f"{time.time() - 600}"},
        {"time": "nan"},
    ):
        said = head(CALL, **change)
        assert send(server, said, CALL, said.signed(KEYS.project))[0] == 403, change


def test_a_call_for_one_try_at_a_task_is_nothing_to_the_next(server: ActorServer) -> None:
    """Which has seen no call yet, so that whoever recorded one could have it run once more."""
    said = head(CALL)
    assert send(server, said, CALL, said.signed(KEYS.project))[0] == 200
    again = replace(HERE, attempt=2, attempt_uid="att_2")
    with inside(again), ActorServer("127.0.0.1", keys=KEYS) as second:
        second.register("target", Target())
        second.serve_background()
        assert send(second, said, CALL, said.signed(KEYS.project))[0] == 403
        own = head(CALL, audience="att_2")
        assert send(second, own, CALL, own.signed(KEYS.project))[0] == 200


def test_a_handle_that_knew_an_earlier_try_asks_again() -> None:
    house = LocalHouse()
    first = house.info("/ann/a")
    second = replace(first, attempt=2, attempt_uid=f"{first.attempt_uid}-again")

    def ask() -> None:
        handle = ActorHandle("target", timeout_s=5)
        for around in (first, second):
            with inside(around), ActorServer("127.0.0.1", port) as server:
                server.register("target", Target())
                server.serve_background()
                registry = context().registry
                assert registry is not None
                registry.register("target", f"127.0.0.1:{port}")
                assert handle.add(1) == 2
                known = handle._endpoint
                assert known is not None
                assert known.attempt_uid == around.attempt_uid
                registry.close()

    port = next_port()
    house.run("/ann/a", ask)
    house.close()


def test_nothing_of_a_signed_call_can_be_exchanged(server: ActorServer) -> None:
    said = head(CALL)
    proof = said.signed(KEYS.project)
    other = json.dumps({"args": [2], "kwargs": {}}).encode()
    assert send(server, said, other, proof)[0] == 403
    assert send(server, said, CALL, proof, path="/v1/actors/target/_private")[0] == 403
    assert send(server, head(CALL, nonce=said.nonce, method="other"), CALL, proof)[0] == 403


def test_OD_32_a_pickle_of_a_stranger_is_never_loaded(server: ActorServer) -> None:
    body = pickle.dumps({"args": [Bomb()], "kwargs": {}})
    project = head(body, media_type=payload.PICKLE)
    assert send(server, project, body, project.signed(KEYS.project))[0] == 415
    forged = head(body, media_type=payload.PICKLE, key=NAMESPACE)
    assert send(server, forged, body, forged.signed(KEYS.project))[0] == 403
    swapped = head(CALL, media_type=payload.PICKLE, key=NAMESPACE)
    assert send(server, swapped, body, swapped.signed(KEYS.namespace))[0] == 403
    server.pickle = False
    unwanted = head(body, media_type=payload.PICKLE, key=NAMESPACE)
    assert send(server, unwanted, body, unwanted.signed(KEYS.namespace))[0] == 415
    assert LOADED == []


def test_what_is_private_or_no_method_is_not_there(server: ActorServer) -> None:
    for method in ("_private", "__init__", "value", "missing"):
        said = head(CALL, method=method)
        assert send(server, said, CALL, said.signed(KEYS.project))[0] in (403, 404), method


def test_private_methods_are_none_of_the_server_s(server: ActorServer) -> None:
    assert server.method("target", "add") is not None
    assert server.method("target", "_private") is None
    assert server.method("other", "add") is None


def test_what_answers_in_an_actor_s_place_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    LOADED.clear()
    house = LocalHouse()

    class Impostor(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = pickle.dumps({"result": Bomb()})
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    def ask() -> None:
        around = context()
        assert around.registry is not None
        around.registry.register("a", f"127.0.0.1:{http_.server_port}")
        with pytest.raises(SdkError, match="refused"):
            ActorHandle("a", pickle=True, timeout_s=3).call("x")
        around.registry.close()

    with HTTPServer(("127.0.0.1", 0), Impostor) as http_:
        threading.Thread(target=http_.serve_forever, daemon=True).start()
        house.run("/ann/a", ask)
        http_.shutdown()
    house.close()
    assert LOADED == []


def test_a_body_is_not_read_before_its_head_is_proved_and_never_beyond_the_limit(server: ActorServer) -> None:
    said = head(b"")
    length = {"content_length": str(10**12)}
    assert send(server, said, b"", "wrong", **length)[0] == 403
    fresh = head(b"")
    assert send(server, fresh, b"", fresh.signed(KEYS.project), content_length=str(MAX_BODY + 1))[0] == 413


def test_a_stranger_who_speaks_slowly_is_cut_off_and_a_call_that_works_long_is_not(monkeypatch) -> None:
    monkeypatch.setattr(actors, "HEAD_S", 0.3)
    with inside(HERE), ActorServer("127.0.0.1", keys=KEYS) as server:
        server.register("target", Slow())
        server.serve_background()
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as stranger:
            for _ in range(20):
                try:
                    stranger.sendall(b"P")
                    time.sleep(0.05)
                except OSError:
                    break
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(1) == b""
        said = head(CALL)
        status, data, _ = send(server, said, CALL, said.signed(KEYS.project))
        assert (status, json.loads(data)) == (200, {"result": 1})


class Slow:
    def add(self, number: int) -> int:
        time.sleep(0.6)
        return number


def test_an_answer_without_proof_is_no_more_than_a_word() -> None:
    assert isinstance(_refusal(200, b'{"result": 1}', "a.b"), SdkError)
    assert isinstance(_refusal(500, pickle.dumps(Bomb()), "a.b"), SdkError)


def test_keys_do_not_show_themselves() -> None:
    assert "p" * 32 not in repr(KEYS)
