"""TE-09, TE-21: a port is nobody else's while it is held."""

import random
import socket

import pytest

from hostler.agent.containers.ports import PortBook, is_free, ports_in, ports_text
from hostler.base.errors import HostlerError


def anything(port: int) -> bool:
    return True


def test_TE_09_no_port_is_given_twice_while_it_is_held() -> None:
    rng, book = random.Random(7), PortBook(20_000, 20_019, anything)
    held: dict[str, set[int]] = {}
    for number in range(500):
        uid = f"a{number}"
        names = [f"p{index}" for index in range(rng.randint(1, 4))]
        if 20 - sum(map(len, held.values())) < len(names):
            with pytest.raises(HostlerError, match="no free port"):
                book.take(uid, names)
        else:
            given = book.take(uid, names)
            assert list(given) == names
            assert not set(given.values()) & {port for ports in held.values() for port in ports}
            assert all(20_000 <= port <= 20_019 for port in given.values())
            held[uid] = set(given.values())
        if held and rng.random() < 0.5:
            gone = rng.choice(sorted(held))
            book.free(gone)
            del held[gone]


def test_TE_21_an_attempt_gets_its_own_again_and_what_is_held_is_nobody_elses() -> None:
    book = PortBook(20_000, 20_001, anything)
    first = book.take("a", ["x"])
    assert book.take("a", ["x"]) == first
    book.hold("b", {"y": 20_001})
    with pytest.raises(HostlerError):
        book.take("c", ["z"])


def test_a_port_that_was_given_back_comes_last() -> None:
    book = PortBook(20_000, 20_002, anything)
    given = []
    for uid in "abc":
        given.append(book.take(uid, ["x"])["x"])
        book.free(uid)
    assert given == [20_000, 20_001, 20_002]


def test_a_port_that_somebody_else_listens_on_is_passed_over() -> None:
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(HostlerError):
            PortBook(port, port).take("a", ["x"])


@pytest.mark.parametrize("label", ["", "x", "[]", '{"a": "b"}', "null"])
def test_a_label_that_is_not_ours_holds_nothing(label: str) -> None:
    assert ports_in(label) == {}


def test_a_label_says_what_was_given() -> None:
    assert ports_in(ports_text({"actor": 20_001, "b": 2})) == {"actor": 20_001, "b": 2}
