"""The heads of WebSocket frames, found in any chunks of bytes."""

from __future__ import annotations

import struct

from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.http.server import FrameHeads


def frame(size: int, *, masked: bool = True) -> bytes:
    bit = 0x80 if masked else 0
    if size < 126:
        head = bytes([0x82, bit | size])
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x82, bit | 126, size)
    else:
        head = struct.pack(">BBQ", 0x82, bit | 127, size)
    return head + (b"mask" if masked else b"") + bytes(size)


@given(
    sizes=st.lists(st.sampled_from([0, 1, 5, 125, 126, 300, 65535, 65536, 70000]), max_size=6),
    cuts=st.lists(st.integers(0, 2000), max_size=30),
    unmasked=st.booleans(),
)
@examples(300)
def test_any_chunks(sizes: list[int], cuts: list[int], unmasked: bool) -> None:
    valid = b"".join(map(frame, sizes))
    data = valid + (frame(3, masked=False) if unmasked else b"")
    heads, passed, masked = FrameHeads(), b"", True
    for cut in [*cuts, len(data)]:
        chunk, data = data[:cut], data[cut:]
        frames, masked = heads.feed(chunk)
        passed += frames
        if not masked:
            break
    assert (passed, masked) == (valid, not unmasked)


def test_a_head_that_is_not_complete_waits() -> None:
    heads = FrameHeads()
    assert heads.feed(b"\x82") == (b"", True)
    assert heads.feed(b"\xfe\x00") == (b"", True)
    assert heads.feed(b"\x01mask") == (b"\x82\xfe\x00\x01mask", True)
    assert heads.feed(b"x\x82\x00") == (b"x", False)
