"""The headers of requests for WebSockets.

A page in a browser cannot set ``Authorization`` for a WebSocket. As in an API server, it can pass
its bearer token as a protocol of its own.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

_PROTOCOLS: Final = "Sec-WebSocket-Protocol"
_AUTHORIZATION: Final = "Authorization"
_TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


def is_websocket(headers: MultiMapping[str]) -> bool:
    """Return whether a request is an upgrade to a WebSocket."""
    connection = headers.get("Connection", "").lower().split(",")
    upgrade = headers.get("Upgrade", "").lower()
    return upgrade == "websocket" and "upgrade" in map(str.strip, connection)


def token_as_authorization(headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """Return the headers with the token of the protocols in ``Authorization``, unless that is set.

    The token is removed from the protocols before anything reads them, so that it is in no message,
    and no pod behind the proxy gets it. An invalid one becomes an empty token, which is refused.
    """
    if _PROTOCOLS not in headers:
        return headers
    lines = headers.getall(_PROTOCOLS)
    protocols = [name.strip() for line in lines for name in line.split(",")]
    tokens = [name for name in protocols if name.startswith(_TOKEN_PREFIX)]
    if not tokens:
        return headers
    others = [name for name in protocols if name not in tokens]
    changed = CIMultiDict(headers)
    del changed[_PROTOCOLS]
    if others:
        changed[_PROTOCOLS] = ", ".join(others)
    if is_websocket(headers) and _AUTHORIZATION not in headers:
        # The answer names a protocol, which must not be that of the token.
        token = _decoded(tokens[0]) if others and len(tokens) == 1 else ""
        changed[_AUTHORIZATION] = f"Bearer {token}"
    return CIMultiDictProxy(changed)


def _decoded(protocol: str) -> str:
    """Return the token; empty if it is not base64url without padding, or not UTF-8."""
    text = protocol.removeprefix(_TOKEN_PREFIX)
    try:
        if not _BASE64URL.fullmatch(text):
            return ""
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""
