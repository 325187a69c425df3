"""TE-22: what passes between a client and a task, and whose connections are whose."""

import pytest
from starlette.requests import Request

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.control.api import lines as module
from hostler.control.api.exchange import answer_headers, request_headers
from hostler.control.api.lines import Line, Lines, Wanted
from hostler.control.metrics import Metrics
from hostler.control.rpc.relays import AGENT, Relays
from hostler.wire.relay import STDIN, STDOUT, RelayData, RelayEnd, RelayWindow

PREFIX, ADDRESS = "/api/v1/projects/train/endpoints/t/e/proxy", "10.0.0.7:30001"
ANN = Wanted("ann", "train", "tsk_1", "att_1", 30_001)


def request(*headers: tuple[str, str]) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in (("host", "hostler.example"), *headers)]
    return Request({"type": "http", "scheme": "https", "path": "/", "query_string": b"", "headers": raw,
                    "server": ("hostler.example", 443), "client": ("2001:db8::7", 5)})  # fmt: skip


def asked(*headers: tuple[str, str]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in request_headers(request(*headers), ADDRESS, PREFIX)}


def answered(*headers: tuple[str, str]) -> dict[str, str]:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {name.decode(): value.decode() for name, value in answer_headers(raw, ADDRESS, PREFIX)}


def test_TE_22_credentials_of_the_control_plane_end_here() -> None:
    said = asked(("authorization", "Bearer hsb1_x"), ("Cookie", "a=b"), ("x-own", "1"))
    assert "hsb1_x" not in str(said)
    assert set(said) & {"authorization", "cookie"} == set()
    assert (said["x-own"], said["host"]) == ("1", ADDRESS)


def test_TE_22_a_client_says_nothing_about_where_it_comes_from() -> None:
    said = asked(("x-forwarded-for", "6.6.6.6"), ("x-forwarded-user", "root"), ("forwarded", "for=6.6.6.6"))
    assert said["forwarded"] == 'for="[2001:db8::7]";host="hostler.example";proto=https'
    assert (said["x-forwarded-for"], said["x-forwarded-prefix"]) == ("2001:db8::7", PREFIX)
    assert "x-forwarded-user" not in said


def test_TE_22_a_connection_keeps_its_headers_to_itself() -> None:
    said = asked(("connection", "keep-alive, X-Mine"), ("x-mine", "1"), ("te", "trailers"), ("upgrade", "h2c"))
    assert set(said) & {"connection", "x-mine", "te", "upgrade"} == set()
    both = asked(("transfer-encoding", "chunked"), ("content-length", "5"))
    assert (both["transfer-encoding"], "content-length" in both) == ("chunked", False), "one length, not two"
    told = answered(("connection", "x-mine"), ("x-mine", "1"), ("keep-alive", "1"), ("content-length", "5"))
    assert set(told) - {"content-length"} == {"via", "content-security-policy", "x-content-type-options"}


def test_TE_22_a_task_does_not_speak_of_our_origin() -> None:
    told = answered(("set-cookie", "a=b"), ("access-control-allow-origin", "*"), ("clear-site-data", "*"))
    assert set(told) == {"via", "content-security-policy", "x-content-type-options"}
    assert told["content-security-policy"] == "sandbox"


@pytest.mark.parametrize(
    ("said", "led"),
    [
        ("/login", f"{PREFIX}/login"),
        (f"http://{ADDRESS}/login", f"{PREFIX}/login"),
        ("//elsewhere/x", "//elsewhere/x"),
        ("https://example.com/", "https://example.com/"),
        ("next", "next"),
    ],
)
def test_TE_22_a_redirect_to_the_task_leads_through_the_proxy(said: str, led: str) -> None:
    assert answered(("location", said))["location"] == led


@pytest.fixture
async def lines() -> Lines:
    return Lines(Relays(Metrics(), SystemClock(), 1800), idle_s=0.05)


async def opened(lines: Lines, wanted: Wanted = ANN) -> Line:
    line = lines.begin(wanted, "nod_1")
    line.relay.attach(AGENT)
    line.relay.from_agent(RelayWindow(10))
    await line.opened()
    return line


def spoken(lines: Lines, line: Line) -> None:
    """As after a whole exchange."""
    line.http.send(module.h11.Request(method="GET", target="/", headers=[("host", "t")]))
    line.http.send(module.h11.EndOfMessage())
    line.http.receive_data(b"HTTP/1.1 204 x\r\n\r\n")
    while not isinstance(line.http.next_event(), module.h11.EndOfMessage):
        pass
    lines.give_back(line)


async def test_S2_a_connection_is_lent_to_its_own_principal_and_attempt_only(lines: Lines) -> None:
    line = await opened(lines)
    spoken(lines, line)
    others = (ANN._replace(owner="ben"), ANN._replace(attempt_uid="att_2"), ANN._replace(port=30_002))
    assert [lines.idle(each) for each in others] == [None, None, None]
    assert lines.idle(ANN) is line
    assert lines.idle(ANN) is None, "it is busy now"


async def test_TE_22_one_in_which_the_task_said_something_unasked_is_not_used_again(lines: Lines) -> None:
    line = await opened(lines)
    spoken(lines, line)
    line.relay.from_agent(RelayWindow(3))
    line.relay.from_agent(RelayData(STDOUT, b"HTTP/1.1 200 smuggled\r\n\r\n"))
    assert lines.idle(ANN) is None
    assert len(lines) == 0


async def test_TE_22_what_waits_too_long_is_told_that_nothing_comes(lines: Lines) -> None:
    line = await opened(lines)
    spoken(lines, line)
    down = line.relay.to_agent()
    assert isinstance(await anext(down), RelayWindow)
    async with module.asyncio.timeout(5):
        assert await anext(down) == RelayEnd()
    assert (lines.idle(ANN), len(lines)) == (None, 0)


async def test_TE_22_a_principal_has_so_many_and_idle_ones_give_way(lines: Lines) -> None:
    held = [await opened(lines) for _ in range(module.MOST_OF_ONE)]
    with pytest.raises(HostlerError) as refused:
        lines.begin(ANN, "nod_1")
    assert refused.value.code == "rate_limited"
    spoken(lines, held[0])
    assert lines.begin(ANN._replace(port=30_002), "nod_1").wanted.port == 30_002


async def test_TE_22_no_more_is_sent_than_the_task_takes(lines: Lines) -> None:
    line = await opened(lines)
    line.put(b"x" * 25)
    flushing = module.asyncio.ensure_future(line.flush())
    await module.asyncio.sleep(0)
    flushing.cancel()
    down = line.relay.to_agent()
    await anext(down)
    assert await anext(down) == RelayData(STDIN, b"x" * 10)
    line.relay.from_agent(RelayWindow(50))
    line.relay.from_agent(RelayData(STDOUT, b"y"))
    assert await line.receive() == b"y"
    await line.flush()
    assert await anext(down) == RelayData(STDIN, b"x" * 15), "what was given up goes on where it stood"


async def test_TE_22_a_task_that_is_not_there_or_falls_silent(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_S", 0.05)
    line = lines.begin(ANN, "nod_1")
    with pytest.raises(HostlerError) as refused:
        await line.opened()
    assert (refused.value.code, refused.value.http_status) == ("endpoint_silent", 504)
    line.relay.from_agent(RelayEnd(error_code="address_not_own", message="no"))
    with pytest.raises(HostlerError) as refused:
        await line.opened()
    assert (refused.value.code, refused.value.http_status) == ("endpoint_unreachable", 502)
