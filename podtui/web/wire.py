"""What the page and the server say to each other beside the bytes of the terminal."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from podtui.errors import PodtuiError

LONGEST_MESSAGE: Final = 64 * 1024
"""Bytes of one message from the page, which sends what is pasted in smaller pieces."""
Cells = Annotated[int, msgspec.Meta(ge=1, le=2000)]


class BadMessage(PodtuiError):
    """Raised for a message that is not of this protocol."""


class Size(msgspec.Struct, frozen=True, tag_field="kind", tag="size", forbid_unknown_fields=True):
    """The page has room for this many cells."""

    columns: Cells
    rows: Cells


class Taken(msgspec.Struct, frozen=True, tag_field="kind", tag="taken", forbid_unknown_fields=True):
    """The page has drawn this many bytes since the session began."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]


class Ended(msgspec.Struct, frozen=True, tag_field="kind", tag="ended"):
    """The program has ended; ``text`` is for the user."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag_field="kind", tag="refused"):
    """No program was started; ``text`` says why."""

    text: str


_decoder = msgspec.json.Decoder(Size | Taken)


def decode(text: str) -> Size | Taken:
    """A message of the page's. Raises `BadMessage`."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise BadMessage(str(error)) from error


def encode(message: Ended | Refused) -> str:
    return msgspec.json.encode(message).decode()
