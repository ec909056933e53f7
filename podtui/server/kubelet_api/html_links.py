"""Links in HTML pages behind a proxy, which get the path of the proxy as in an API server."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from html import escape
from html.parser import HTMLParser
from itertools import accumulate
from typing import Final

PAGE_BYTES: Final = 1 << 20
"""A larger page is passed on as it is."""
_GZIP: Final = 31
_LINKS: Final[Mapping[str, tuple[str, ...]]] = {
    "a": ("href",),
    "applet": ("codebase",),
    "area": ("href",),
    "audio": ("src",),
    "base": ("href",),
    "blockquote": ("cite",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "del": ("cite",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("longdesc", "src"),
    "head": ("profile",),
    "html": ("manifest",),
    "iframe": ("longdesc", "src"),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "ins": ("cite",),
    "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"),
    "q": ("cite",),
    "script": ("src",),
    "source": ("src",),
    "video": ("poster", "src"),
}

Link = Callable[[str], str]


def is_page(headers: Mapping[str, str]) -> bool:
    kind = headers.get("Content-Type", "").partition(";")[0]
    return kind.strip().lower() == "text/html" and _encoding(headers) in ("", "gzip")


async def linked(
    body: AsyncIterator[bytes], headers: Mapping[str, str], link: Link
) -> AsyncIterator[bytes]:
    """Yield the body of a page with the targets that ``link`` returns for its links."""
    start = bytearray()
    async for data in body:
        start += data
        if len(start) > PAGE_BYTES:
            break
    else:
        yield await asyncio.to_thread(linked_page, bytes(start), _encoding(headers), link)
        return
    yield bytes(start)
    async for data in body:
        yield data


def linked_page(data: bytes, encoding: str, link: Link) -> bytes:
    """Return a page with other links, and all its other bytes as they are."""
    if encoding != "gzip":
        return _linked(data, link)
    decompressor = zlib.decompressobj(_GZIP)
    try:
        page = decompressor.decompress(data, PAGE_BYTES)
    except zlib.error:
        return data
    return gzip.compress(_linked(page, link)) if decompressor.eof else data


def _encoding(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Encoding", "").strip().lower()


def _linked(page: bytes, link: Link) -> bytes:
    # Keeps each byte. Tags and the paths that change are ASCII in all common encodings.
    text = page.decode("ascii", "surrogateescape")
    tags = _Tags(text, link)
    tags.feed(text)
    pieces: list[str] = []
    end = 0
    for start, former, tag in tags.changed:
        pieces += text[end:start], tag
        end = start + len(former)
    return "".join([*pieces, text[end:]]).encode("ascii", "surrogateescape")


def _ascii(text: str) -> str:
    """Return a text with references to the characters that are neither ASCII nor bytes."""
    return "".join(
        item if item.isascii() or "\udc80" <= item <= "\udcff" else f"&#{ord(item)};"
        for item in text
    )


class _Tags(HTMLParser):
    """The start tags with other links: where they are, and their former and new text."""

    def __init__(self, text: str, link: Link) -> None:
        super().__init__(convert_charrefs=False)
        self.changed: list[tuple[int, str, str]] = []
        self._link = link
        lines = text.split("\n")
        self._lines = [0, *accumulate(len(line) + 1 for line in lines)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = _LINKS.get(tag, ())
        linked = [
            (name, self._link(value) if value and name in names else value) for name, value in attrs
        ]
        text = self.get_starttag_text()
        if linked == attrs or text is None:
            return
        attributes = "".join(
            f" {name}" if value is None else f' {name}="{_ascii(escape(value))}"'
            for name, value in linked
        )
        line, column = self.getpos()
        end = "/>" if text.endswith("/>") else ">"
        self.changed.append((self._lines[line - 1] + column, text, f"<{tag}{attributes}{end}"))
