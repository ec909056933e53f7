from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cluster_server import Authority

from podtui.errors import PodtuiError
from podtui.pki.certificate_file import CertificateFile
from podtui.pki.certificates import key_pem
from podtui.pki.node_certificates import KeyPair, read_pair


def pair(name: str = "system:node:node-1") -> KeyPair:
    return read_pair(b"".join(Authority().issue(name, groups=["system:nodes"])))


def test_a_file_is_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    file, first, second = CertificateFile(tmp_path / "pki", "kubelet-client"), pair(), pair()
    assert file.read() is None
    before = os.umask(0)
    try:
        file.write(first)
        inode = file.path.stat().st_ino
        file.write(second)
    finally:
        os.umask(before)
    assert file.path.stat().st_ino != inode
    assert file.read() == second
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.path.parent.iterdir()] == ["kubelet-client-current.pem"]


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    file = CertificateFile(tmp_path, "kubelet-client")
    certificate, _ = Authority().issue("a", groups=["b"])
    for damage in (b"", b"x", certificate, certificate + key_pem(file.request_key())):
        file.path.write_bytes(damage)
        assert file.read() is None


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(pair().pem)
    file = CertificateFile(tmp_path, "kubelet-client")
    file.path.symlink_to(tmp_path / "other")
    with pytest.raises(PodtuiError, match="is a symbolic link"):
        file.read()
    before = (tmp_path / "other").read_bytes()
    file.write(pair())
    assert not file.path.is_symlink()
    assert (tmp_path / "other").read_bytes() == before
    (tmp_path / "kubelet-client.key.tmp").symlink_to(tmp_path / "other")
    with pytest.raises(PodtuiError, match="is a symbolic link"):
        file.request_key()


def test_the_key_of_a_request_is_kept_until_the_answer(tmp_path: Path) -> None:
    file = CertificateFile(tmp_path / "pki", "kubelet-client")
    key = file.request_key()
    again = CertificateFile(tmp_path / "pki", "kubelet-client").request_key()
    assert key_pem(again) == key_pem(key)
    (path,) = (tmp_path / "pki").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.discard_request_key()
    file.discard_request_key()
    assert key_pem(file.request_key()) != key_pem(key)
    file.write(pair())
    assert not path.exists()


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = CertificateFile(tmp_path / "pki", "kubelet-client")
    (tmp_path / "pki").write_text("no directory")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = Authority().issue("a", groups=["b"], begin=now, end=now + timedelta(days=1))
    with pytest.raises(PodtuiError, match=r"cannot write .*kubelet-client-current\.pem"):
        file.write(read_pair(b"".join(certificate)))
    with pytest.raises(PodtuiError, match=r"cannot store a key in .*kubelet-client\.key\.tmp"):
        file.request_key()
    with pytest.raises(PodtuiError, match=r"cannot read .*kubelet-client-current\.pem"):
        file.read()
