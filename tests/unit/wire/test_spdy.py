"""SPDY frames, encoded and decoded."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.wire.spdy import (
    DICTIONARY,
    LONGEST_FRAME,
    Data,
    Frame,
    Opened,
    Ping,
    Reset,
    Spdy,
    SpdyError,
)

HEADERS = {"streamtype": "error", "port": "8080", "requestid": "0"}


def test_the_compression_dictionary_matches_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def read(spdy: Spdy, *pieces: bytes) -> list[Frame]:
    return [frame for piece in pieces for frame in spdy.feed(piece)]


def test_frames_round_trip_between_both_ends() -> None:
    here, there = Spdy(), Spdy()
    wire = b"".join(
        (
            here.open(1, HEADERS, fin=True),
            here.open(3, {"streamtype": "data"}),
            here.data(3, b"abc"),
            here.reply(2),
            here.data(3, b"", fin=True),
            here.reset(3, 5),
            here.pong(Ping(7)),
        )
    )
    assert read(there, wire) == [
        Opened(1, HEADERS, fin=True),
        Opened(3, {"streamtype": "data"}),
        Data(3, b"abc"),
        Data(3, b"", fin=True),
        Reset(3, 5),
        Ping(7),
    ]


@given(st.lists(st.integers(1, 40)))
def test_frames_arrive_in_chunks_of_any_size(sizes: list[int]) -> None:
    here = Spdy()
    wire = here.open(1, HEADERS) + here.data(1, b"x" * 50) + here.open(3, HEADERS)
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(wire[:size])
        wire = wire[size:]
    assert read(Spdy(), *pieces, wire) == [
        Opened(1, HEADERS),
        Data(1, b"x" * 50),
        Opened(3, HEADERS),
    ]


def test_a_stream_reply_can_close_the_stream() -> None:
    wire = bytearray(Spdy().reply(1))
    wire[4] = 1
    assert read(Spdy(), bytes(wire)) == [Data(1, b"", fin=True)]


def control(kind: int, body: bytes) -> bytes:
    return b"\x80\x03" + kind.to_bytes(2, "big") + b"\0" + len(body).to_bytes(3, "big") + body


BOMB = zlib.compressobj(zdict=DICTIONARY)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "bytes"),
        (b"\x80\x02\0\1\0\0\0\0", "not a frame of SPDY/3"),
        (b"\0\0\0\1\0" + (LONGEST_FRAME + 1).to_bytes(3, "big"), "a frame of 1048577 bytes"),
        (control(1, b"\0\0\0\1"), "too short"),
        (control(1, bytes(10) + b"no zlib at all"), "invalid headers"),
        (
            control(
                1, bytes(10) + BOMB.compress(bytes(10_000_000)) + BOMB.flush(zlib.Z_SYNC_FLUSH)
            ),
            "too long",
        ),
    ],
)
def test_invalid_data_is_refused(wire: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        read(Spdy(), wire)


def test_truncated_headers_are_refused() -> None:
    packed = zlib.compressobj(zdict=DICTIONARY)
    block = packed.compress(b"\0\0\0\2\0\0\0\1a\0\0\0\x09b") + packed.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(SpdyError, match="are incomplete"):
        read(Spdy(), control(1, bytes(10) + block))


def test_unneeded_frames_are_skipped() -> None:
    goaway, settings = control(7, bytes(8)), control(4, bytes(4))
    assert read(Spdy(), goaway + settings + Spdy().data(1, b"x")) == [Data(1, b"x")]
