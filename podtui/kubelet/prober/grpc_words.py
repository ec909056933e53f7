"""The messages of the gRPC health protocol, and the interpretation of replies (reference §8).

Pure functions; the error messages are those of the Go client that a kubelet uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from podtui.kubelet.base.go_format import go_duration, quoted
from podtui.kubelet.prober.address import Address
from podtui.kubelet.prober.outcome import SUCCESS, Outcome, failure

PATH: Final = "/grpc.health.v1.Health/Check"
BODY_LIMIT: Final = 10 * 1024
"""Bytes; a health reply has seven."""
_CODES: Final = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)
_BY_HTTP_STATUS: Final = {
    400: "Internal",
    401: "Unauthenticated",
    403: "PermissionDenied",
    404: "Unimplemented",
    429: "Unavailable",
    502: "Unavailable",
    503: "Unavailable",
    504: "Unavailable",
}
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING: Final = 1
_CONTENT_TYPE: Final = "application/grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply: the first header block, the body and the trailers. In a reply without a body, the
    first block also holds the trailers."""

    headers: Mapping[str, str]
    body: bytes = b""
    trailers: Mapping[str, str] = field(default_factory=dict[str, str])


def request(service: str) -> bytes:
    """Return a framed ``HealthCheckRequest``; an empty name checks the server as a whole."""
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def judge(reply: Reply, timeout: float) -> Outcome:
    """Return the probe outcome of a reply. ``timeout`` is the probe's timeout in seconds."""
    problem = _http_problem(reply.headers)
    if problem is not None:
        return rpc_failed(*problem, timeout)
    last = reply.trailers or reply.headers
    code = code_name(last.get("grpc-status", "2"))
    if code != "OK":
        return rpc_failed(code, unquote(last.get("grpc-message", "")), timeout)
    try:
        number = _status(reply.body)
    except ValueError as error:
        return rpc_failed("Internal", str(error), timeout)
    if number == _SERVING:
        return SUCCESS
    name = _STATUSES[number] if number < len(_STATUSES) else str(number)
    return failure(f"service unhealthy (responded with {quoted(name)})")


def code_name(number: str) -> str:
    """Return Go's name of a gRPC status code."""
    if number.isascii() and number.isdigit() and int(number) < len(_CODES):
        return _CODES[int(number)]
    return f"Code({number})"


def rpc_failed(code: str, text: str, timeout: float) -> Outcome:
    """Return the outcome of a call that ended with this status code."""
    if code == "Unimplemented":
        words = "error: this server does not implement the grpc health protocol"
        return failure(f"{words} (grpc.health.v1.Health): {text}")
    if code == "DeadlineExceeded":
        return failure(f"timeout: health rpc did not complete within {go_duration(timeout)}")
    return failure(f"error: health rpc probe failed: rpc error: code = {code} desc = {text}")


def not_connected(address: Address, timeout: float) -> Outcome:
    """Return the outcome if no connection was established in time, for any reason."""
    words = f'timeout: failed to connect service "{address}" within {go_duration(timeout)}'
    return failure(f"{words}: context deadline exceeded")


def _http_problem(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (code, message) if the headers are not those of a gRPC server."""
    said_status = headers.get(":status", "")
    status = int(said_status) if said_status.isascii() and said_status.isdigit() else 0
    kind = headers.get("content-type", "")
    said: list[str] = []
    if not kind:
        said.append("malformed header: missing HTTP content-type")
    elif not kind.lower().startswith(_CONTENT_TYPE):
        said.append(f"transport: received unexpected content-type {quoted(kind)}")
    if status == HTTPStatus.OK and not said:
        return None
    words = f"unexpected HTTP status code received from server: {status} ({_phrase(status)})"
    return _BY_HTTP_STATUS.get(status, "Unknown"), "; ".join([words, *said])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _status(body: bytes) -> int:
    """Return the ``status`` field of a framed ``HealthCheckResponse``. Raises `ValueError`."""
    if not body:
        raise ValueError(
            "cardinality violation: received no response message from non-server-streaming RPC"
        )
    if len(body) < 5 or len(body) != 5 + int.from_bytes(body[1:5], "big"):
        raise ValueError("unexpected EOF")
    if body[0]:
        raise ValueError("grpc: compressed flag set with identity or empty encoding")
    message, at, status = body[5:], 0, 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, following = _read_varint(message, at)
        match tag & 7:
            case 0:
                at = following
            case 2:
                at = following + value
            case _:
                raise ValueError("grpc: failed to unmarshal the received message")
        if tag == 1 << 3:
            status = value
    return status


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (number, end offset). Raises `ValueError`."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("grpc: failed to unmarshal the received message")
