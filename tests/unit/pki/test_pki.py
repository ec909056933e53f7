from __future__ import annotations

import logging
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from podtui.errors import PodtuiError
from podtui.pki.certificates import AUTHORITY_LIFE, SERVER_LIFE, cluster_names, server_names
from podtui.pki.pki import Pki

NOW = datetime(2026, 11, 23, tzinfo=UTC)
NAMES = server_names(("node-1",))


def opened(folder: Path, now: datetime = NOW) -> tuple[Pki, x509.Certificate]:
    folder.mkdir(exist_ok=True)
    pki = Pki(folder / "pki", now)
    pki.ensure_server_certificate(NAMES, now)
    return pki, x509.load_pem_x509_certificate(pki.server_path.read_bytes())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "pki").iterdir()}


def test_keys_and_certificates_are_created_once_and_kept(tmp_path: Path) -> None:
    first, _ = opened(tmp_path)
    before = files(tmp_path)
    assert before.keys() == {"ca.key", "ca.crt", "server.pem", "sa.key", "token", "lock"}
    second, _ = opened(tmp_path, NOW + timedelta(days=30))
    assert files(tmp_path) == before
    assert first.token == second.token
    assert len(first.token) == 43
    other, _ = opened(tmp_path / "other")
    assert other.token != first.token


def test_files_are_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        opened(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_permissions_of_others_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = opened(tmp_path)
    key, folder = tmp_path / "pki" / "ca.key", tmp_path / "pki"
    key.chmod(0o644)
    folder.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        second, _ = opened(tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "ca.key was accessible to other users" in caplog.text
    assert first.authority == second.authority


def test_a_link_in_place_of_a_key_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    (tmp_path / "pki" / "ca.key").rename(tmp_path / "elsewhere")
    (tmp_path / "pki" / "ca.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PodtuiError, match="cannot store keys"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "server.pem", "sa.key", "token"])
def test_a_damaged_key_file_is_replaced_and_not_quoted(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path)
    (tmp_path / "pki" / name).write_bytes(b"rubbish that is secret")
    with caplog.at_level(logging.WARNING):
        pki, certificate = opened(tmp_path)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.authority))
    assert f"{name} is damaged" in caplog.text
    assert "secret" not in caplog.text
    assert pki.token.isascii()


def test_the_server_certificate_is_renewed_at_two_thirds_of_its_life(tmp_path: Path) -> None:
    pki, first = opened(tmp_path)
    hour = timedelta(hours=1)
    due = NOW - hour + (SERVER_LIFE + hour) * 2 / 3
    assert not pki.ensure_server_certificate(NAMES, due - hour)
    assert pki.ensure_server_certificate(NAMES, due + hour)
    _, second = opened(tmp_path, due + hour)
    assert second.serial_number != first.serial_number
    assert second.not_valid_after_utc == due + hour + SERVER_LIFE
    # A clock that was far in the future and is right again.
    assert pki.ensure_server_certificate(NAMES, NOW - timedelta(days=400))


def test_another_name_of_the_node_makes_another_certificate(tmp_path: Path) -> None:
    pki, _ = opened(tmp_path)
    assert not pki.ensure_server_certificate(NAMES, NOW)
    assert pki.ensure_server_certificate(server_names(("node-2",)), NOW)


def test_a_renewed_authority_signs_for_clients_of_the_old_one(tmp_path: Path) -> None:
    first, old_server = opened(tmp_path)
    second, new_server = opened(tmp_path, NOW + AUTHORITY_LIFE * 3 / 4)
    old, new = (x509.load_pem_x509_certificate(one.authority) for one in (first, second))
    assert old.serial_number != new.serial_number
    new_server.verify_directly_issued_by(old)
    old_server.verify_directly_issued_by(new)


def test_extensions(tmp_path: Path) -> None:
    pki, server = opened(tmp_path)
    authority = x509.load_pem_x509_certificate(pki.authority)
    get = authority.extensions.get_extension_for_class
    assert get(x509.BasicConstraints).critical
    assert get(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=0)
    assert get(x509.KeyUsage).critical
    assert get(x509.KeyUsage).value.key_cert_sign
    identifier = get(x509.SubjectKeyIdentifier).value.digest
    get = server.extensions.get_extension_for_class
    assert get(x509.AuthorityKeyIdentifier).value.key_identifier == identifier
    assert not get(x509.BasicConstraints).value.ca
    assert list(get(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not get(x509.KeyUsage).value.key_cert_sign
    assert server.serial_number > 0


def test_names() -> None:
    assert server_names(()) == ("localhost", "127.0.0.1", "::1")
    extra = ("Node-1.example.org", "10.0.0.7", "127.0.0.1", "localhost", "0.0.0.0", "a_b", "-x")
    assert server_names(extra)[3:] == ("node-1.example.org", "10.0.0.7")
    assert server_names(("1.2.3", "x" * 64, f"{'a.' * 127}a", ""))[3:] == ()
    assert cluster_names("example.net") == (
        "kubernetes", "kubernetes.default", "kubernetes.default.svc",
        "kubernetes.default.svc.example.net", "10.96.0.1",
    )  # fmt: skip
    assert cluster_names("")[3:] == ("10.96.0.1",)
