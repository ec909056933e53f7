"""Links in HTML pages behind a proxy."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import pytest

from podtui.server.kubelet_api.html_links import PAGE_BYTES, is_page, linked, linked_page


def link(target: str) -> str:
    return f"/p{target}" if target.startswith("/") else target


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/a">x</a>', '<a href="/p/a">x</a>'),
        ("<A HREF=/a Class='b'>x</A>", '<a href="/p/a" class="b">x</A>'),
        ("é\r\n<p>\n <IMG src='/a' alt>", 'é\r\n<p>\n <img src="/p/a" alt>'),
        ('<script src="/a">"<a href=/b>"</script>', '<script src="/p/a">"<a href=/b>"</script>'),
        ('<!-- <a href="/a"> -->', '<!-- <a href="/a"> -->'),
        ('<a href="b">  <p href="/a">', '<a href="b">  <p href="/a">'),
        ('<a href="/aé&quot;&eacute;&#8364;">', '<a href="/p/aé&quot;&#233;&#8364;">'),
        ("a < b <", "a < b <"),
    ],
)  # fmt: skip
def test_links(page: str, expected: str) -> None:
    assert linked_page(page.encode(), "", link).decode() == expected


def test_compressed_pages() -> None:
    page = gzip.compress(b"<a href=/a>")
    assert gzip.decompress(linked_page(page, "gzip", link)) == b'<a href="/p/a">'
    for odd in (b"<a href=/a>", page[:-1], gzip.compress(bytes(PAGE_BYTES + 1))):
        assert linked_page(odd, "gzip", link) == odd


def test_what_a_page_is() -> None:
    assert is_page({"Content-Type": "Text/HTML ; charset=utf-8"})
    assert is_page({"Content-Type": "text/html", "Content-Encoding": "gzip"})
    assert not is_page({"Content-Type": "text/html", "Content-Encoding": "br"})
    assert not is_page({"Content-Type": "text/plain"})


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([b"<a hr", b"ef=/a>"], b'<a href="/p/a">'), ([], b"")],
)
async def test_pieces(pieces: list[bytes], expected: bytes) -> None:
    assert await _joined(pieces) == expected


async def test_a_large_page_stays_as_it_is() -> None:
    pieces = [b"<a href=/a>", bytes(PAGE_BYTES), b"<a href=/a>"]
    assert await _joined(pieces) == b"".join(pieces)


async def _joined(pieces: list[bytes]) -> bytes:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = {"Content-Type": "text/html"}
    return b"".join([data async for data in linked(body(), headers, link)])
