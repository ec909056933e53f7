"""Find the proxy for a server: the kubeconfig's, else the environment's, by Go's rules
(``golang.org/x/net/http/httpproxy``), which kubectl uses."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from podtui.errors import UsageError

_PORTS: Final = {"https": "443", "http": "80"}


def proxy_for(server: str, proxy_url: str, environ: Mapping[str, str]) -> str:
    """Return the proxy URL for a server URL, empty for none. Raises `UsageError` for a proxy that
    podtui cannot use; its message has no password."""
    if proxy_url:
        return proxy_url
    parts = urlsplit(server)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    port = str(parts.port or _PORTS.get(scheme, ""))
    name = f"{scheme.upper()}_PROXY"
    proxy = _variable(environ, name)
    if not proxy or is_direct(host, port, _variable(environ, "NO_PROXY")):
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    scheme = urlsplit(proxy).scheme.lower()
    if scheme not in ("http", "https"):
        raise UsageError(
            f"{name} is a {scheme} proxy; podtui supports http and https proxies. Give the cluster"
            " a proxy-url, or name its server in NO_PROXY"
        )
    return proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.lower()) or "").strip()


def is_direct(host: str, port: str, exceptions: str) -> bool:
    """Return whether a host is accessed without a proxy. ``exceptions`` is the value of
    ``NO_PROXY``: names including their subdomains, ``.name`` for subdomains only, addresses,
    address ranges, or ``*`` for all. All but address ranges and ``*`` may have a ``:port``."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return any(_covers(entry, host, port, address) for entry in entries if entry)


def _covers(entry: str, host: str, port: str, address: _Address | None) -> bool:
    if entry == "*":
        return True
    if address is not None and "/" in entry:
        return _is_within(address, entry)
    name, its_port = _split_address(entry)
    if its_port not in ("", port):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return bool(name) and (host == name or host.endswith(f".{name}"))


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_within(address: _Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _split_address(entry: str) -> tuple[str, str]:
    """Split ``host``, ``host:port``, ``[v6]``, ``[v6]:port`` or ``v6`` into (host, port or
    empty)."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    host, colon, port = entry.rpartition(":")
    return (host, port) if colon and ":" not in host else (entry, "")
