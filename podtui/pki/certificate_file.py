"""The file of a certificate that a cluster has signed for the node, with its key.

A kubelet keeps dated files and a symbolic link to the current one. No link may be in the ``pki``
directory, so here the current one is a file, which is replaced as a whole.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from podtui.errors import PodtuiError
from podtui.pki.certificates import key_pem, make_key, read_key
from podtui.pki.node_certificates import KeyPair, read_pair
from podtui.pki.pki import read_parsed
from podtui.private_files import make_directory, write_private


class CertificateFile:
    """All methods block, and raise `PodtuiError` if a file cannot be read or written."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}-current.pem"
        self._key_path = directory / f"{name}.key.tmp"

    def read(self) -> KeyPair | None:
        """Return None if there is no file, or if it is damaged."""
        try:
            return read_parsed(self.path, read_pair)
        except OSError as error:
            raise PodtuiError(f"cannot read {self.path}: {error}") from error

    def write(self, pair: KeyPair) -> None:
        """Replace the file, and remove the key of the request."""
        try:
            make_directory(self.path.parent)
            write_private(self.path, pair.pem)
            self._key_path.unlink(missing_ok=True)
        except OSError as error:
            raise PodtuiError(f"cannot write {self.path}: {error}") from error

    def request_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key of a request that has not been answered, which is kept until then."""
        try:
            make_directory(self.path.parent)
            key = read_parsed(self._key_path, read_key)
            if key is None:
                key = make_key()
                write_private(self._key_path, key_pem(key))
        except OSError as error:
            raise PodtuiError(f"cannot store a key in {self._key_path}: {error}") from error
        return key

    def discard_request_key(self) -> None:
        try:
            os.unlink(self._key_path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise PodtuiError(f"cannot remove {self._key_path}: {error}") from error
