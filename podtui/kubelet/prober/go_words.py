"""Format network errors as Go's net package does: kubelet users search for these messages."""

from __future__ import annotations

import os
import socket

from podtui.kubelet.prober.address import Address


def dial_error(address: Address, error: OSError) -> str:
    """Format a failed connection attempt."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {address.host}: no such host"
    return f"dial tcp {address}: connect: {_reason(error)}"


def dial_timeout(address: Address) -> str:
    return f"dial tcp {address}: i/o timeout"


def read_error(address: Address, error: OSError) -> str:
    """Format a broken connection."""
    return f"read tcp {address}: read: {_reason(error)}"


def _reason(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]
