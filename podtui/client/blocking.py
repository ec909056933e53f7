"""Blocking requests to the agent, for short-lived programs: imports nothing heavy."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podtui.errors import AgentUnavailable, ApiError

MAX_BODY = 256 * 1024 * 1024


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("podtui", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get_json(
    socket_path: Path | str, path: str, timeout: float = 5.0, accept: str = "application/json"
) -> Any:
    """Return the JSON at ``path`` of the agent on a unix socket; ``timeout`` is in seconds for each
    wait.

    Raises `AgentUnavailable` if no agent answers, `ApiError` for an error response.
    """
    body = get_bytes(socket_path, path, timeout, accept)
    try:
        return json.loads(body)
    except ValueError as error:
        raise ApiError(200, "InternalError", f"{path}: not JSON") from error


def get_bytes(
    socket_path: Path | str, path: str, timeout: float = 5.0, accept: str = "*/*"
) -> bytes:
    """Return the raw response of ``path``. Raises the same errors as `get_json`."""
    return _request(socket_path, "GET", path, None, timeout, accept)


def post_bytes(socket_path: Path | str, path: str, body: bytes, timeout: float = 5.0) -> bytes:
    """Return the response to a body that is sent to ``path``. Raises the same errors as
    `get_json`."""
    return _request(socket_path, "POST", path, body, timeout, "application/json")


def patch_bytes(socket_path: Path | str, path: str, body: bytes, timeout: float = 5.0) -> bytes:
    """Return the response to a JSON merge patch. Raises the same errors as `get_json`."""
    json_type, patch_type = "application/json", "application/merge-patch+json"
    return _request(socket_path, "PATCH", path, body, timeout, json_type, patch_type)


def _request(
    socket_path: Path | str,
    method: str,
    path: str,
    body: bytes | None,
    timeout: float,
    accept: str,
    content_type: str = "",
) -> bytes:
    connection = _UnixConnection(str(socket_path), timeout)
    try:
        headers = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
        connection.request(method, path, body, headers=headers)
        response = connection.getresponse()
        content = response.read(MAX_BODY)
    except (OSError, http.client.HTTPException) as error:
        raise AgentUnavailable(f"no agent answers on {socket_path}: {error}") from error
    finally:
        connection.close()
    if response.status >= 400:
        raise refusal(response.status, response.reason, content)
    return content


def _causes(status: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the field and the message of each cause of a ``Status``."""
    details: dict[str, Any] = status.get("details") or {}
    causes: list[dict[str, Any]] = details.get("causes") or []
    return tuple((str(cause.get("field") or ""), str(cause.get("message"))) for cause in causes)


def refusal(
    code: int, reason: str, body: bytes, headers: Mapping[str, str] | None = None
) -> ApiError:
    """Convert an error response, with its ``Status`` if it has one."""
    wait = (headers or {}).get("Retry-After", "")
    after = float(wait) if wait.isascii() and wait.isdigit() else None
    try:
        status = json.loads(body)
        # Kubernetes omits the reason if it has no name for it.
        word = str(status.get("reason") or reason.replace(" ", ""))
        return ApiError(code, word, str(status["message"]), after, _causes(status))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = body[:500].decode(errors="replace").strip()
        return ApiError(code, reason.replace(" ", ""), text or f"{code} {reason}", after)
