"""The status codes of gRPC, with Go's names."""

from __future__ import annotations

from typing import Final

CODES: Final = (
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


def code_name(number: str) -> str:
    """Return Go's name of a status code."""
    if number.isascii() and number.isdigit() and int(number) < len(CODES):
        return CODES[int(number)]
    return f"Code({number})"
