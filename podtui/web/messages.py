"""The messages between the page and the server, besides the bytes of the terminal."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from podtui.errors import PodtuiError

LONGEST_MESSAGE: Final = 64 * 1024
"""Maximum bytes of one message from the page, which splits pasted text."""
Cells = Annotated[int, msgspec.Meta(ge=1, le=2000)]


class BadMessage(PodtuiError):
    """Raised for a message that violates the protocol."""


class Size(msgspec.Struct, frozen=True, tag_field="kind", tag="size", forbid_unknown_fields=True):
    """The page's terminal size in cells."""

    columns: Cells
    rows: Cells


class Taken(msgspec.Struct, frozen=True, tag_field="kind", tag="taken", forbid_unknown_fields=True):
    """The total number of bytes that the page has drawn in this session."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]


class Ended(msgspec.Struct, frozen=True, tag_field="kind", tag="ended"):
    """The program has exited; ``text`` is for the user."""

    text: str


class StartRefused(msgspec.Struct, frozen=True, tag_field="kind", tag="refused"):
    """No program was started; ``text`` has the reason."""

    text: str


_decoder = msgspec.json.Decoder(Size | Taken)


def decode(text: str) -> Size | Taken:
    """Decode a message from the page. Raises `BadMessage`."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise BadMessage(str(error)) from error


def encode(message: Ended | StartRefused) -> str:
    return msgspec.json.encode(message).decode()
