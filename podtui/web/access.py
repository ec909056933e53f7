"""Access control for the page: checks of hosts, origins, tokens and cookies, on plain values.

A browser sends requests on behalf of other sites, and all users of a machine share its loopback
addresses. So each request must name us as its host (against DNS rebinding), a WebSocket must come
from our own page (other sites may open one to us), and both need the cookie that was issued for the
token. Cookies are bound to hosts but not to ports: ours is only sent to one secret path, so another
server on this machine never receives it.
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
class WebAccess:
    """The secrets of one run of the server, each with 256 random bits; a restart creates new ones.

    ``token`` is in the printed link, ``cookie`` is issued in exchange for it, and ``path`` is the
    URL folder of all resources. No secret is derived from another.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)
    path: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)

    def is_token(self, given: str) -> bool:
        return secrets_equal(given, self.token)

    def is_cookie(self, given: str) -> bool:
        return secrets_equal(given, self.cookie)

    def is_path(self, given: str) -> bool:
        return secrets_equal(given, self.path)


def secrets_equal(given: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def loopback_host(host: str) -> str:
    """Return the address to listen on. Raises `UsageError` if other machines could reach it."""
    if host == NAME:
        return LOOPBACK[0]
    try:
        address = str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        address = ""
    if address not in LOOPBACK:
        raise UsageError(
            f"podtui web listens on {' or '.join(LOOPBACK)} only, not on {host!r}: anyone who can"
            " open the page can do what you can. From another machine, use"
            " 'ssh -L PORT:127.0.0.1:PORT'"
        )
    return address


def authority(host: str, port: int) -> str:
    """Format ``HOST:PORT`` for a link."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_our_host(given: str | None, port: int) -> bool:
    """Return whether a request's ``Host`` is this machine's loopback address with our port."""
    return given in {authority(host, port) for host in (*LOOPBACK, NAME)}


def is_our_origin(given: str | None, host: str) -> bool:
    """Return whether a WebSocket's ``Origin`` is our own page; ``host`` is its verified ``Host``.

    A browser always sends an ``Origin``, so a request without one is not from our page.
    """
    return given == f"http://{host}"


def safety_headers(host: str) -> Mapping[str, str]:
    """Return the security headers of every response; ``host`` is the verified ``Host``.

    Inline styles are allowed, because the terminal library writes the theme's colours into style
    elements. No external data is ever inserted into the page as HTML.
    """
    # 'self' covers WebSockets, but older browsers need the URL, which cannot contain [::1].
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
    }
