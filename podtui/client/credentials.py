"""The user's identity for an API server: HTTP headers and the TLS client certificate.

The rules are client-go's. A token, a password or a certificate in the kubeconfig takes precedence
over an exec plugin. The files of tokens and client certificates are read again periodically.
Credentials are never sent without TLS.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from podtui.client.exec_plugin import Credential, run_plugin
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubeconfig.types import Impersonation, Target

FILE_SECONDS: Final = 60.0
"""The maximum age of the content of a file."""
MAX_TOKEN: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """``number`` increases with each new identity. ``certificate`` and ``key`` are PEM, empty for
    none."""

    number: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Credentials:
    """The credentials of one user for one cluster. ``interactive`` means that a plugin may use this
    terminal, until `leave_terminal`. All methods raise `podtui.errors.PodtuiError`, without secrets
    in the message."""

    def __init__(self, target: Target, clock: Clock, *, interactive: bool = False) -> None:
        self._target = target
        self._clock = clock
        self._interactive = interactive
        self._lock = asyncio.Lock()
        self._identity: Identity | None = None
        self._expires: datetime | None = None
        self._last_token = ""
        """The last content of the token file."""
        self._read_at = 0.0

    def leave_terminal(self) -> None:
        """From now on, plugins may not use the terminal."""
        self._interactive = False

    async def identity(self) -> Identity:
        """Return the current identity."""
        async with self._lock:
            if self._identity is None or self._is_stale():
                self._identity = await self._make_identity()
            return self._identity

    async def renew(self, used: Identity) -> Identity | None:
        """Return a new identity after the server has rejected ``used``; None if there is no
        other."""
        async with self._lock:
            if self._identity is not None and self._identity.number > used.number:
                return self._identity
            if not (self._has_plugin or self._has_file):
                return None
            fresh = await self._make_identity()
            self._identity = fresh
            return None if _presents_same(fresh, used) else fresh

    @property
    def _has_plugin(self) -> bool:
        user = self._target.user
        given = user.token or user.token_file or user.username or user.password
        given = given or user.cert_data or user.cert_file
        return user.exec is not None and not given and self._target.cluster.is_secure

    @property
    def _has_file(self) -> bool:
        user = self._target.user
        has_certificate_file = user.cert_file is not None and not user.cert_data
        return self._target.cluster.is_secure and (
            user.token_file is not None or has_certificate_file
        )

    def _is_stale(self) -> bool:
        if self._expires is not None and self._clock.now() > self._expires:
            return True
        return self._has_file and self._clock.monotonic() - self._read_at > FILE_SECONDS

    async def _make_identity(self) -> Identity:
        user, cluster = self._target.user, self._target.cluster
        number = self._identity.number + 1 if self._identity is not None else 1
        if not cluster.is_secure:
            return Identity(number, impersonation_headers(user.impersonation))
        headers: list[tuple[str, str]] = []
        certificate, key = await self._certificate()
        self._read_at = self._clock.monotonic()
        if user.token or user.token_file:
            headers.append(("Authorization", f"Bearer {await self._token()}"))
        elif user.username or user.password:
            basic = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {basic}"))
        elif self._has_plugin:
            credential = await self._run_plugin()
            if credential.token:
                headers.append(("Authorization", f"Bearer {_header(credential.token)}"))
            if credential.certificate:
                certificate, key = credential.certificate, credential.key
        headers += impersonation_headers(user.impersonation)
        return Identity(number, tuple(headers), certificate, key)

    async def _certificate(self) -> tuple[bytes, bytes]:
        """Return client certificate and key, empty for none."""
        try:
            return await asyncio.to_thread(_pair, self._target)
        except PodtuiError:
            # The files may be missing while they are replaced; the last ones may still be valid.
            if self._identity is None:
                raise
            return self._identity.certificate, self._identity.key

    async def _run_plugin(self) -> Credential:
        credential = await run_plugin(self._target, interactive=self._interactive)
        self._expires = credential.expires
        return credential

    async def _token(self) -> str:
        user = self._target.user
        if user.token_file is None:
            return _header(user.token)
        try:
            text = await asyncio.to_thread(_read, user.token_file, "tokenFile", user.name)
            if not text.strip():
                raise PodtuiError(f"user {user.name!r}: {user.token_file} is empty")
        except PodtuiError:
            # The file may be incomplete while it is replaced; the last token may still be valid.
            text = self._last_token or user.token
            if not text:
                raise
        else:
            self._last_token = text
        return _header(text.strip())


def _presents_same(identity: Identity, other: Identity) -> bool:
    return (
        identity.headers == other.headers
        and identity.certificate == other.certificate
        and identity.key == other.key
    )


def impersonation_headers(impersonation: Impersonation) -> tuple[tuple[str, str], ...]:
    """Format the headers like client-go; empty without impersonation."""
    if not impersonation.user:
        return ()
    headers = [("Impersonate-User", _header(impersonation.user))]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", _header(impersonation.uid)))
    headers += (("Impersonate-Group", _header(group)) for group in impersonation.groups)
    for name, values in impersonation.extra.items():
        header = f"Impersonate-Extra-{quote(name, safe='!#$&+^_`|')}"
        headers += ((header, _header(value)) for value in values)
    return tuple(headers)


def _header(text: str) -> str:
    """Raises `PodtuiError` for text with control characters, which could inject another header."""
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise PodtuiError("a credential contains control characters")
    return text


def _pair(target: Target) -> tuple[bytes, bytes]:
    """Return client certificate and key, empty for none. Blocks."""
    user = target.user
    certificate, key = user.cert_data, user.key_data
    if not certificate and user.cert_file is not None:
        certificate = _read(user.cert_file, "client-certificate", user.name).encode()
    if certificate and not key and user.key_file is not None:
        key = _read(user.key_file, "client-key", user.name).encode()
    return (certificate, key) if certificate else (b"", b"")


def _read(path: Path, field_: str, user: str) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TOKEN).decode()
    except OSError as error:
        raise PodtuiError(f"user {user!r}: {field_}: {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise PodtuiError(f"user {user!r}: {field_}: {path}: not UTF-8") from None
