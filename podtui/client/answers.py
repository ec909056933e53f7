"""Decode responses into the expected types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from podtui.api.reading import decoded
from podtui.errors import ApiError

T = TypeVar("T")


def understood(path: str, body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode the response of ``path``. Raises `ApiError` if it is no ``kind``: other versions of
    podtui, proxies and login pages also respond with 200."""
    decoder = msgspec.json.Decoder(kind)
    return read_by(path, lambda: decoded(body, decoder))


def read_by(path: str, read: Callable[[], T]) -> T:
    """Call ``read`` to decode a response. Raises the same errors as `understood`."""
    try:
        return read()
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InternalError", f"{path}: cannot be read: {error}") from error
