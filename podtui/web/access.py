"""Who may use the page: decisions about hosts, origins, tokens and cookies, on plain values.

A browser runs what other sites send it, and on a shared machine loopback is everybody's. So each
request has to name us as its host (DNS rebinding), a WebSocket has to come from our own page (other
sites may open one to us), and both need the cookie that the token was exchanged for. Cookies know
hosts but no ports: ours is sent to one secret path only, so another server on this machine never
gets it.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.errors import UsageError

SECRET_BYTES: Final = 32
LOOPBACK: Final = ("127.0.0.1", "::1")
NAME: Final = "localhost"


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one run of the server, each of 256 random bits; a restart makes others.

    ``token`` is in the link that is printed, ``cookie`` is what it is exchanged for, ``path`` is
    the folder that everything lies under. None is derived from another.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)
    path: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)

    def is_token(self, given: str) -> bool:
        return same(given, self.token)

    def is_cookie(self, given: str) -> bool:
        return same(given, self.cookie)

    def is_path(self, given: str) -> bool:
        return same(given, self.path)


def same(given: str, expected: str) -> bool:
    """Whether two secrets are one, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def loopback_host(host: str) -> str:
    """The address to listen on. Raises `UsageError` for one that others could reach."""
    if host == NAME:
        return LOOPBACK[0]
    try:
        address = str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        address = ""
    if address not in LOOPBACK:
        raise UsageError(
            f"podtui web listens on {' or '.join(LOOPBACK)} alone, not on {host!r}: whoever reaches"
            " the page can do what you can. From another machine, use 'ssh -L PORT:127.0.0.1:PORT'"
        )
    return address


def authority(host: str, port: int) -> str:
    """``HOST:PORT`` as a link has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_our_host(given: str | None, port: int) -> bool:
    """Whether a request's ``Host`` is this machine's loopback, under our port."""
    return given in {authority(host, port) for host in (*LOOPBACK, NAME)}


def is_our_origin(given: str | None, host: str) -> bool:
    """Whether a WebSocket's ``Origin`` is our own page; ``host`` is its ``Host``, already checked.

    A browser always sends one, so who sends none is no page of ours.
    """
    return given == f"http://{host}"


def safety_headers(host: str) -> Mapping[str, str]:
    """What each answer says; ``host`` is the ``Host`` that was asked for, already checked.

    Styles may be inline: the terminal's library writes the theme's colours into style elements.
    Nothing from outside is ever put into the page as HTML.
    """
    # 'self' is for sockets too, but older browsers want it in full; none can spell [::1] there.
    socket = "" if "[" in host else f" ws://{host}"
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self';"
        f" img-src 'self'; connect-src 'self'{socket}; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Server": "podtui",
    }
