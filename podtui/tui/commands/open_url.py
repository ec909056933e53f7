"""Open the URL of a Service or an Ingress in a browser, or say how to reach it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from podtui.api.lenient import lenient_convert
from podtui.api.networking import Ingress
from podtui.api.urls import ingress_urls, published_ports
from podtui.api.v1 import ObjectMeta, Service
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.tui.commands.objects import object_label
from podtui.tui.commands.port_forward import PRIVILEGED
from podtui.tui.commands.session import Session
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import Picker
from podtui.tui.widgets.sanitize import clean

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def urls_of(item: AnyObject) -> list[str]:
    """Return the URLs at which this machine reaches a Service or an Ingress."""
    if item.content.get("kind") == "Ingress":
        ingress = lenient_convert(item.content, Ingress)
        return [each.local_url for each in ingress_urls(ingress)]
    service = lenient_convert(item.content, Service)
    return [port.url for port in published_ports(service) if port.url]


def hindrance(url: str, environ: Mapping[str, str], platform: str) -> str:
    """Return why a browser of the user cannot be opened from here, and what to do instead; empty
    if it can."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        # A name below .localhost leads to loopback on both machines.
        is_name = host.endswith("localhost")
        address = "127.0.0.1" if is_name else host
        local = port if port > PRIVILEGED else port + 8000
        shown = host if is_name else "127.0.0.1"
        here = f"{parts.scheme}://{shown}:{local}{parts.path}"
        return (
            f"This is another machine than yours. Forward the port:"
            f" ssh -L {local}:{address}:{port} …, then open {here}"
        )
    if platform.startswith("linux") and not any(environ.get(name) for name in _DISPLAYS):
        return f"There is no display here for a browser. The URL was copied: {url}"
    return ""


def show_url(session: Session, url: str) -> None:
    """Open a URL in a browser; where that is not possible, copy it and say what to do."""
    # The path of an Ingress may have any characters.
    url = clean(url)
    why = "" if session.app.is_web else hindrance(url, os.environ, sys.platform)
    session.app.copy_to_clipboard(url)
    if why:
        session.notify(why, title=url)
        return
    session.app.open_url(url)
    session.notify("The URL was copied, too.", title=f"Opens {url}")


async def open_url(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Open the URL of an object; ask if there are several. Raises `ApiError`."""
    item = await session.client.get_object(kind, meta.namespace, meta.name)
    urls = urls_of(item)
    if not urls:
        session.notify(_no_url(kind), title=object_label(kind, meta), severity="warning")
        return
    url = urls[0]
    if len(urls) > 1:
        index = await session.ask(url_picker(urls))
        if index is None:
            return
        url = urls[index]
    show_url(session, url)


def url_picker(urls: Sequence[str]) -> Picker:
    """Return the dialog that asks which URL to open."""
    return Picker("Open a URL", [(Span(clean(url), "key"),) for url in urls])


def _no_url(kind: ServedKind) -> str:
    if kind.kind == "Ingress":
        return "It has no URL: no controller has given it an address. X says why."
    return (
        "It has no URL: it is not published on this machine, or its ports do not look like HTTP."
        " F forwards a local port to it."
    )
