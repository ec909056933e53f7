"""Answers to requests, read as what they have to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from podtui.api.reading import decoded
from podtui.errors import ApiError

T = TypeVar("T")


def understood(path: str, body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """What ``path`` answered with. Raises `ApiError` where that is no ``kind``: other versions of
    podtui, proxies and login pages answer with 200 as well."""
    decoder = msgspec.json.Decoder(kind)
    return read_by(path, lambda: decoded(body, decoder))


def read_by(path: str, read: Callable[[], T]) -> T:
    """What ``read`` makes of an answer. Raises as `understood`."""
    try:
        return read()
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InternalError", f"{path}: cannot be read: {error}") from error
