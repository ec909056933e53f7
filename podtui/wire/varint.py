"""Integers as protobuf encodes them."""

from __future__ import annotations


def encode_varint(number: int) -> bytes:
    """Encode a number that is not negative: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
