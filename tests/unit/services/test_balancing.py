"""The choice of a backend."""

from __future__ import annotations

import random

from service_world import backends_port

from podtui.services.backends import Backend
from podtui.services.balancing import MAX_CLIENTS, Balancer

BACKENDS = tuple(Backend("10.0.0.1", port) for port in range(4))


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def balancer(affinity: int = 0) -> tuple[Balancer, Time]:
    time = Time()
    port = backends_port(*BACKENDS, affinity=affinity)
    return Balancer(port, time.monotonic, random.Random(1)), time


def test_connections_spread_over_all_backends() -> None:
    chooser, _ = balancer()
    counts = dict.fromkeys(BACKENDS, 0)
    for _ in range(1000):
        chosen = chooser.choose("127.0.0.1")
        assert chosen is not None
        counts[chosen] += 1
    assert min(counts.values()) > 150


def test_without_backends_there_is_no_choice() -> None:
    chooser, _ = balancer()
    assert chooser.choose("127.0.0.1", BACKENDS) is None
    chooser.port = backends_port()
    assert chooser.choose("127.0.0.1") is None


def test_a_backend_that_refused_is_not_chosen_again() -> None:
    chooser, _ = balancer()
    assert {chooser.choose("c", BACKENDS[:3]) for _ in range(20)} == {BACKENDS[3]}


def test_a_client_keeps_its_backend() -> None:
    chooser, time = balancer(affinity=60)
    first = chooser.choose("a")
    for _ in range(30):
        time.now += 59
        assert chooser.choose("a") == first
    others = {chooser.choose(f"client {number}") for number in range(50)}
    assert len(others) == 4


def test_affinity_expires() -> None:
    chooser, time = balancer(affinity=60)
    chosen: set[Backend | None] = set()
    for _ in range(50):
        chosen.add(chooser.choose("a"))
        time.now += 60
    assert len(chosen) > 1


def test_affinity_ends_with_its_backend() -> None:
    chooser, _ = balancer(affinity=60)
    first = chooser.choose("a")
    rest = tuple(item for item in BACKENDS if item != first)
    chooser.port = backends_port(*rest, affinity=60)
    second = chooser.choose("a")
    assert second in rest
    chooser.port = backends_port(*BACKENDS, affinity=60)
    assert chooser.choose("a") == second


def test_the_number_of_remembered_clients_is_limited() -> None:
    chooser, _ = balancer(affinity=60)
    first = chooser.choose("first")
    for number in range(MAX_CLIENTS):
        chooser.choose(str(number))
    chooser.port = backends_port(*(item for item in BACKENDS if item != first), affinity=60)
    assert chooser.choose("first") != first
