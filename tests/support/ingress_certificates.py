"""Certificates for servers in tests."""

from __future__ import annotations

from datetime import UTC, datetime

from podtui.pki.certificates import (
    key_pem,
    make_authority,
    make_key,
    make_server_certificate,
    pem,
)


def certificate(name: str) -> tuple[bytes, bytes]:
    """Return a certificate for a name, and its key, in PEM."""
    now, authority_key, key = datetime.now(UTC), make_key(), make_key()
    authority = make_authority(authority_key, now)
    made = make_server_certificate(authority, authority_key, key, (name,), now, name)
    return pem(made), key_pem(key)
