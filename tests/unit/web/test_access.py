"""Access decisions, as pure functions."""

from __future__ import annotations

import base64

import pytest

from podtui.errors import UsageError
from podtui.web.access import (
    WebAccess,
    authority,
    is_our_host,
    is_our_origin,
    loopback_host,
    safety_headers,
    secrets_equal,
)


def test_secrets_have_256_bits_and_are_new_each_time() -> None:
    one, other = WebAccess(), WebAccess()
    secrets = {one.token, one.cookie, one.path, other.token, other.cookie, other.path}
    assert len(secrets) == 6
    assert all(len(base64.urlsafe_b64decode(secret + "=")) == 32 for secret in secrets)
    assert not any(secret in repr(one) for secret in secrets)


def test_each_secret_grants_only_its_own_access() -> None:
    access = WebAccess()
    assert access.is_token(access.token)
    assert access.is_cookie(access.cookie)
    assert access.is_path(access.path)
    assert not access.is_token(access.cookie)
    assert not access.is_cookie(access.token)
    assert not access.is_path(access.token)


@pytest.mark.parametrize("given", ["", "tok", "token ", "Token", "tokén", "\ud800", "tokentoken"])
def test_a_secret_is_compared_completely(given: str) -> None:
    assert secrets_equal("token", "token")
    assert not secrets_equal(given, "token")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
    ],
)
def test_listening_on_loopback_is_allowed(given: str, address: str) -> None:
    assert loopback_host(given) == address


@pytest.mark.parametrize(
    "given", ["0.0.0.0", "::", "", "192.168.1.4", "127.0.0.2", "example.com", "localhost.evil", "*"]
)
def test_listening_on_other_addresses_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="ssh -L"):
        loopback_host(given)


def test_links_name_host_and_port() -> None:
    assert authority("127.0.0.1", 80) == "127.0.0.1:80"
    assert authority("::1", 7638) == "[::1]:7638"


@pytest.mark.parametrize("given", ["127.0.0.1:7638", "localhost:7638", "[::1]:7638"])
def test_requests_must_name_this_host(given: str) -> None:
    assert is_our_host(given, 7638)


@pytest.mark.parametrize(
    "given",
    [None, "", "127.0.0.1", "localhost", "127.0.0.1:7639", "evil.example:7638", "localhost.:7638",
     "127.0.0.1:7638.evil.example", "LOCALHOST:7638", "::1:7638", "127.0.0.1:7638, evil"],
)  # fmt: skip
def test_other_dns_names_are_refused(given: str | None) -> None:
    assert not is_our_host(given, 7638)


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("http://127.0.0.1:7638", True),
        ("http://localhost:7638", False),  # requested by another name
        ("https://127.0.0.1:7638", False),
        ("http://127.0.0.1:7639", False),
        ("http://evil.example", False),
        ("http://127.0.0.1:7638.evil.example", False),
        ("null", False),
        ("", False),
        (None, False),
    ],
)
def test_websockets_must_come_from_our_page(given: str | None, ours: bool) -> None:
    assert is_our_origin(given, "127.0.0.1:7638") is ours


def test_the_page_loads_only_from_this_server() -> None:
    headers = safety_headers("127.0.0.1:7638")
    rules = {
        name: values.split()
        for name, _, values in (
            rule.strip().partition(" ") for rule in headers["Content-Security-Policy"].split(";")
        )
    }
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == ["'none'"]
    assert rules["script-src"] == ["'self'"]
    assert rules["connect-src"] == ["'self'", "ws://127.0.0.1:7638"]
    assert not any("http" in value or "*" in value for values in rules.values() for value in values)
    assert "ws:" not in safety_headers("[::1]:7638")["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
