"""Encoder and decoder of SPDY/3.1 frames, limited to what Kubernetes' streams use.

There is no flow control: neither side sends window updates, and TCP slows down the sender.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

LONGEST_FRAME: Final = 1 << 20
_HEAD: Final = 8
_CONTROL: Final = 0x8003
_FIN: Final = 0x01
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _HEADERS = 1, 2, 3, 6, 8
CANCEL: Final = 5
"""Status of a `Reset` whose sender no longer needs the stream."""
REFUSED: Final = 3
"""Status of a `Reset` whose sender never accepted the stream."""
_LONGEST_HEADERS: Final = 64 * 1024

_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language"
    " accept-ranges age allow authorization cache-control connection content-base"
    " content-encoding content-language content-length content-location content-md5 content-range"
    " content-type date etag expect expires from host if-match if-modified-since if-none-match"
    " if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate"
    " proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status"
).split()
_MORE_NAMES: Final = ("200 OK", *"version HTTP/1.1 url public set-cookie keep-alive origin".split())
_VALUES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue,"
    " Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(len(name).to_bytes(4, "big") + name.encode() for name in (*_NAMES, *_MORE_NAMES))
    + _VALUES.encode()
)
"""The initial compression dictionary of both sides."""


class SpdyError(ValueError):
    """Raised for bytes that are not valid frames; the connection is unusable afterwards."""


@dataclass(frozen=True, slots=True)
class Opened:
    """``fin``: the sender will send no data on this stream."""

    stream: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    payload: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


Frame = Opened | Data | Reset | Ping
"""The frames that `Spdy.feed` yields; frames of other kinds are not needed and are skipped."""


class Spdy:
    """One end of a connection."""

    def __init__(self) -> None:
        self._kept = bytearray()
        # One compressor for each direction of the connection: a block of headers depends on all
        # blocks before it, so that none may be skipped.
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    # --- in

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add received bytes and yield the frames that are now complete. Raises `SpdyError`."""
        kept = self._kept
        kept += data
        while len(kept) >= _HEAD:
            length = int.from_bytes(kept[5:8], "big")
            if length > LONGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes")
            if len(kept) < _HEAD + length:
                return
            # The first bit is set in control frames. In data frames the first word is the stream.
            first, flags = int.from_bytes(kept[:4], "big"), kept[4]
            body = bytes(kept[_HEAD : _HEAD + length])
            del kept[: _HEAD + length]
            if not first >> 31:
                yield Data(first, body, bool(flags & _FIN))
            elif (frame := self._control(first, flags, body)) is not None:
                yield frame

    def _control(self, first: int, flags: int, body: bytes) -> Frame | None:
        if first >> 16 != _CONTROL:
            raise SpdyError("not a frame of SPDY/3")
        kind = first & 0xFFFF
        if len(body) < _LEAST_SIZES.get(kind, 0):
            raise SpdyError(f"a frame of kind {kind} that is too short")
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        match kind:
            case 1:  # SYN_STREAM
                return Opened(number, self._read_headers(body[10:]), bool(flags & _FIN))
            case 2 | 8:  # SYN_REPLY, HEADERS
                # Not needed, but the decompressor must see every header block to keep its state.
                self._read_headers(body[4:])
                return Data(number, b"", fin=True) if flags & _FIN else None
            case 3:  # RST_STREAM
                return Reset(number, int.from_bytes(body[4:8], "big"))
            case 6:  # PING
                return Ping(int.from_bytes(body[:4], "big"))
            case _:
                return None

    def _read_headers(self, block: bytes) -> dict[str, str]:
        try:
            # The limit protects from a small block that unpacks to gigabytes.
            plain = self._inflate.decompress(block, _LONGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"invalid headers: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError("the headers are too long")
        at = 4
        texts: list[str] = []
        for _ in range(2 * int.from_bytes(plain[:4], "big")):
            length = int.from_bytes(plain[at : at + 4], "big")
            at += 4 + length
            if at > len(plain):
                raise SpdyError("the headers are incomplete")
            texts.append(plain[at - length : at].decode("latin-1"))
        return dict(zip(texts[::2], texts[1::2], strict=True))

    # --- out

    def open(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        """Open a stream. The side that opened the connection numbers its streams 1, 3, 5 …"""
        body = _word(stream) + bytes(6) + self._headers(headers)
        return _control(_SYN_STREAM, body, _FIN if fin else 0)

    def reply(self, stream: int) -> bytes:
        return _control(_SYN_REPLY, _word(stream) + self._headers({}))

    def data(self, stream: int, payload: bytes, *, fin: bool = False) -> bytes:
        flags = bytes([_FIN if fin else 0])
        return _word(stream) + flags + len(payload).to_bytes(3, "big") + payload

    def reset(self, stream: int, status: int) -> bytes:
        return _control(_RST_STREAM, _word(stream) + _word(status))

    def pong(self, ping: Ping) -> bytes:
        return ping_frame(ping.number)

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        texts = [text.encode("latin-1") for pair in headers.items() for text in pair]
        plain = _word(len(headers)) + b"".join(_word(len(text)) + text for text in texts)
        # A sync flush completes the block, and keeps the state for the next one.
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


_LEAST_SIZES: Final = {_SYN_STREAM: 10, _SYN_REPLY: 4, _RST_STREAM: 8, _PING: 4, _HEADERS: 4}
"""Minimum body length of a frame in bytes."""


def ping_frame(number: int) -> bytes:
    """Encode a ping, or the answer to one. The side that accepted the connection uses even
    numbers."""
    return _control(_PING, _word(number))


def _word(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    head = _word(_CONTROL << 16 | kind) + bytes([flags]) + len(body).to_bytes(3, "big")
    return head + body
