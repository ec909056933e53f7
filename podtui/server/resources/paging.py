"""Lists in pages: the ``limit`` and ``continue`` parameters.

A continue token has the version of the first page and the key of the last item sent, so that the
pages together are one consistent list. If that version is no longer kept, the client gets a token
to continue with the current objects.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from podtui.api.v1 import ListMeta
from podtui.server.status import StatusError, bad_request

LATEST = -1
"""The version of a token that continues with the current objects."""
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct, frozen=True):
    """``start`` is the namespace and the name of the last item sent."""

    rv: int
    start: tuple[str, str]
    v: str = "meta.k8s.io/v1"


class Continued(NamedTuple):
    """The list metadata of a page that is not the last. ``remaining`` is None if it is unknown."""

    token: str
    remaining: int | None

    def metadata(self) -> dict[str, str | int]:
        more = {} if self.remaining is None else {"remainingItemCount": self.remaining}
        return {"continue": self.token, **more}


def encode_token(token: ContinueToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def parse_token(text: str) -> ContinueToken:
    """Raises `StatusError` 400."""
    try:
        body = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(body, type=ContinueToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def too_old(token: ContinueToken) -> StatusError:
    """Return the 410 for a token whose version is no longer kept; it has a token to continue
    with."""
    latest = encode_token(ContinueToken(LATEST, token.start))
    return StatusError(410, _TOO_OLD, reason="Expired", metadata=ListMeta(continue_=latest))
