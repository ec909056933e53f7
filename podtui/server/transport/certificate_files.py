"""A server's certificate in files that other programs replace: its rotation needs no restart."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

from podtui.errors import PodtuiError
from podtui.server.transport.tls import tls_context

log = logging.getLogger(__name__)
_Version = tuple[Path, int, int, int] | None
_Versions = tuple[_Version, ...]


class CertificateFiles:
    """``paths`` returns the files with the certificate and its key, which may be the same file.
    With ``client_ca``, clients are asked for a certificate that one of its authorities signed; they
    may have none.

    Other and replaced files are loaded for the next connection. If they cannot be loaded, the
    former ones stay in use. Implements `podtui.server.transport.tls.Certificate`.
    """

    def __init__(
        self, paths: Callable[[], tuple[Path, Path]], client_ca: Path | None = None
    ) -> None:
        self._paths = paths
        self._client_ca = client_ca
        self._context: ssl.SSLContext | None = None
        self._loaded: _Versions = ()
        self._loading = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        async with self._loading:
            if self._context is None:
                self._context = await self._load(self._versions())
            return self._context

    async def renew_if_due(self) -> None:
        async with self._loading:
            versions = self._versions()
            if versions == self._loaded:
                return
            try:
                self._context = await self._load(versions)
            except PodtuiError as error:
                log.warning("%s; the former certificate stays in use", error)
            else:
                log.info("loaded the certificate %s", self._paths()[0])

    async def _load(self, versions: _Versions) -> ssl.SSLContext:
        # Files that cannot be loaded are tried again when they change.
        self._loaded = versions
        return await asyncio.to_thread(self._read)

    def _read(self) -> ssl.SSLContext:
        """Raises `PodtuiError`."""
        path, key = self._paths()
        try:
            context = tls_context(path, key)
            if self._client_ca is not None:
                path = self._client_ca
                context.load_verify_locations(self._client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
                # As in Go, trust the given certificates even if they are not roots.
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        except (OSError, ValueError) as error:
            raise PodtuiError(f"cannot load the certificate {path}: {error}") from error
        return context

    def _versions(self) -> _Versions:
        paths = (*self._paths(), self._client_ca)
        return tuple(_version(path) for path in paths if path is not None)


def _version(path: Path) -> _Version:
    """Return what differs for another file, and once a file is replaced or written; None if it
    cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_ino, status.st_mtime_ns, status.st_size
