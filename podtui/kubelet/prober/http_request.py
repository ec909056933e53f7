"""Build the request of an httpGet handler (reference §8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from podtui.api.v1 import HTTPGetAction
from podtui.kubelet.prober.address import Address

VERSION: Final = "1.36"
PROBE_AGENT: Final = f"kube-probe/{VERSION}"
HOOK_AGENT: Final = f"kube-lifecycle/{VERSION}"
_PATH_CHARACTERS: Final = "/%?:@!$&'()*+,;=~-._[]"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A GET request. ``target`` is the path and query as sent; ``host`` is the Host header, empty
    for the address."""

    scheme: str
    address: Address
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    host: str = ""

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}{self.target}"

    def over_http(self) -> HttpRequest:
        """Return the same request without TLS and without the Authorization header, which must not
        be sent unencrypted."""
        headers = [one for one in self.headers if one[0].lower() != "authorization"]
        return replace(self, scheme="http", headers=tuple(headers))


def request_for(action: HTTPGetAction, address: Address, agent: str) -> HttpRequest:
    """Build the request of a probe or hook to ``address``."""
    given = [(one.name, one.value) for one in action.httpHeaders]
    host = next((value for name, value in given if name.lower() == "host"), "")
    headers = [one for one in given if one[0].lower() != "host"]
    names = {name.lower() for name, _ in headers}
    if "user-agent" not in names:
        headers.append(("User-Agent", agent))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    return HttpRequest(
        scheme=action.scheme.lower() or "http",
        address=address,
        target=_target(action.path),
        headers=tuple(_without_empty(headers, ("accept", "user-agent"))),
        host=host,
    )


def _without_empty(
    headers: Iterable[tuple[str, str]], names: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """Drop the named headers if their value is empty: an empty value disables the default
    header."""
    return [one for one in headers if one[1] or one[0].lower() not in names]


def _target(path: str) -> str:
    whole = path.partition("#")[0]
    if not whole.startswith("/"):
        whole = f"/{whole}"
    return quote(whole, safe=_PATH_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect target; ``request`` is None if it is on another host."""

    request: HttpRequest | None
    problem: str = ""
    """Why the redirect cannot be followed."""


def redirected(request: HttpRequest, location: str) -> Redirect:
    """Resolve a ``Location`` header. Only redirects within the same host are followed."""
    try:
        parts = urlsplit(urljoin(request.url, location))
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        relative = not urlsplit(location).scheme
    except ValueError as error:
        return Redirect(None, f"failed to parse Location header: {error}")
    if (parts.hostname or "").lower() != request.address.host.lower():
        return Redirect(None)
    if parts.scheme not in _DEFAULT_PORTS:
        return Redirect(None, f'unsupported protocol scheme "{parts.scheme}"')
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    following = replace(
        request,
        scheme=parts.scheme,
        address=replace(request.address, port=port),
        target=_target(target),
        host=request.host if relative else "",
    )
    return Redirect(following)
