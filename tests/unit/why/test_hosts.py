"""Hosts in texts: what is one, what is a guess, and what is none."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.why.hosts import Host, environment_prefixes, hosts_of, option_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("http://web", [("web", 0)]),
        ("http://web:8080/path?a=b", [("web", 8080)]),
        ("redis://:secret@redis:6379/0", [("redis", 6379)]),
        ("jdbc:postgresql://db:5432/x?y=z", [("db", 5432)]),
        ("mongodb://a:27017,b:27017/x", [("a", 27017), ("b", 27017)]),
        ("http://web.shop.svc.cluster.local.:80", [("web.shop.svc.cluster.local", 80)]),
        ("web.shop.svc", [("web.shop.svc", 0)]),
        ("until nslookup db; do sleep 1; done", [("db", 0)]),
        ("nc -z -w 2 redis 6379 && run", [("redis", 6379)]),
        ("wget -qO- 'http://WEB:8080'", [("web", 8080)]),
        ("http://a http://a", [("a", 0)]),
        ("http://a:1 http://a", [("a", 1)]),
    ],
)
def test_urls_and_dialled_hosts_are_sure(text: str, hosts: list[tuple[str, int]]) -> None:
    assert hosts_of(text) == [Host(name, port, sure=True) for name, port in hosts]


@pytest.mark.parametrize(
    "text",
    ["", "hello world", "http://localhost:80", "127.0.0.1:80", "http://[::1]:80", "8080", "12:30",
     "http://$(HOST)/", "http://${HOST}:80", "-x", "a" * 64, "http://" + "a" * 64, "a..b:80"],
)  # fmt: skip
def test_other_texts_name_no_host(text: str) -> None:
    assert hosts_of(text) == []


def test_a_word_is_a_guess_that_the_name_of_its_variable_may_announce() -> None:
    assert hosts_of("db") == [Host("db")]
    assert hosts_of("db", "DB_HOST") == [Host("db", announced=True)]
    assert hosts_of("db:5432") == [Host("db", 5432)]
    assert hosts_of("db:5432", "DB_ADDR") == [Host("db", 5432, sure=True, announced=True)]
    assert [h.name for h in hosts_of("k-0.k:9092, k-1.k:9092", "BROKERS")] == ["k-0.k", "k-1.k"]
    assert hosts_of("db", "THRESHOLD") == [Host("db")]


def test_a_port_that_is_none_is_left_out() -> None:
    assert hosts_of("http://web:99999") == [Host("web", 0, sure=True)]


def test_options_announce_their_values() -> None:
    assert option_hosts("--db-host=db") == [Host("db", announced=True)]
    assert option_hosts("--url=http://web") == [Host("web", sure=True)]
    assert option_hosts("--verbose") == []


def test_variables_of_services() -> None:
    assert environment_prefixes("$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)") == ["DB"]


@examples(200)
@given(st.text(max_size=300), st.text(max_size=20))
def test_any_text_is_read(text: str, name: str) -> None:
    for host in hosts_of(text, name):
        assert host.name == host.name.lower()
        assert len(host.name) <= 640
        assert 0 <= host.port <= 65535
