"""The ``pki`` directory of a root directory: created at the first start, renewed in time.

==============  ===================================================================
``ca.key``      the authority's key
``ca.crt``      its certificate, which clients trust
``server.pem``  the server's key and its certificate
``sa.key``      signs the tokens of service accounts
``token``       the bearer token of the root directory's owner
==============  ===================================================================
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from podtui.errors import PodtuiError
from podtui.pki.certificates import (
    is_due,
    is_signed_by,
    key_pem,
    make_authority,
    make_key,
    make_server_certificate,
    names_of,
    pem,
    read_key,
)
from podtui.private_files import locked, make_directory, read_private, write_private

log = logging.getLogger(__name__)

_TOKEN_BYTES: Final = 32
_LEAST_TOKEN: Final = 32
T = TypeVar("T")


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Create the directory with mode 0700, and hold its lock."""
    make_directory(directory)
    os.chmod(directory, 0o700)
    with locked(directory / "lock"):
        yield


class Pki:
    """The keys and certificates in ``directory``.

    All methods block. They raise `PodtuiError` if a file cannot be read or written.
    """

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory = directory
        self._server: x509.Certificate | None = None
        try:
            with _locked(directory):
                self._authority_key = self._key("ca.key")
                self._authority = self._authority_certificate(self._authority_key, now)
                self.signing_key = self._key("sa.key")
                self.token = self._token()
        except OSError as error:
            raise PodtuiError(f"cannot store keys in {directory}: {error}") from error

    @property
    def authority(self) -> bytes:
        """The authority's certificate as PEM."""
        return pem(self._authority)

    @property
    def server_path(self) -> Path:
        """The file with the server's key and certificate, for `ssl.SSLContext`."""
        return self._directory / "server.pem"

    def is_due(self, now: datetime) -> bool:
        """Return whether a certificate is to be renewed; reads no file."""
        return is_due(self._authority, now) or self._server is None or is_due(self._server, now)

    def ensure_server_certificate(self, names: Sequence[str], now: datetime) -> bool:
        """Make or renew the server's certificate, unless it is valid for long enough and has these
        names; first the authority's certificate, if it is due. Return whether the server's is
        new."""
        try:
            with _locked(self._directory):
                self._authority = self._authority_certificate(self._authority_key, now)
                return self._make_server_certificate(names, now)
        except OSError as error:
            raise PodtuiError(f"cannot make a certificate: {error}") from error

    def _authority_certificate(
        self, key: ec.EllipticCurvePrivateKey, now: datetime
    ) -> x509.Certificate:
        path = self._directory / "ca.crt"
        certificate = read_parsed(path, x509.load_pem_x509_certificate)
        if (
            certificate is None
            or certificate.public_key() != key.public_key()
            or is_due(certificate, now)
        ):
            certificate = make_authority(key, now)
            write_private(path, pem(certificate))
        return certificate

    def _make_server_certificate(self, names: Sequence[str], now: datetime) -> bool:
        pair = read_parsed(self.server_path, _server_pair)
        if pair is not None:
            key, certificate = pair
            if (
                certificate.public_key() == key.public_key()
                and names_of(certificate) == frozenset(names)
                and is_signed_by(certificate, self._authority)
                and not is_due(certificate, now)
            ):
                self._server = certificate
                return False
        key = make_key()
        made = make_server_certificate(self._authority, self._authority_key, key, names, now)
        # One file, so that key and certificate always match.
        write_private(self.server_path, key_pem(key) + pem(made))
        self._server = made
        return True

    def _key(self, name: str) -> ec.EllipticCurvePrivateKey:
        path = self._directory / name
        key = read_parsed(path, read_key)
        if key is None:
            key = make_key()
            write_private(path, key_pem(key))
        return key

    def _token(self) -> str:
        path = self._directory / "token"
        token = read_parsed(path, _read_token)
        if token is None:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            write_private(path, token.encode())
        return token


def read_parsed(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return a file's content; None if there is none, or if it is damaged."""
    data = read_private(path)
    if data is None:
        return None
    try:
        return parse(data)
    except ValueError:
        # The error's text could quote the file.
        log.warning("%s is damaged: it is replaced by a new one", path)
        return None


def _server_pair(data: bytes) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    return read_key(data), x509.load_pem_x509_certificate(data)


def _read_token(data: bytes) -> str:
    token = data.decode("ascii").strip()
    if len(token) < _LEAST_TOKEN or not token.isprintable() or " " in token:
        raise ValueError("not a token")
    return token
