from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
import yaml

from podtui.errors import PodtuiError
from podtui.pki.access_point import (
    AccessPoint,
    choose_access_point,
    listen,
    remembered_access_point,
    write_kubeconfig,
)


def test_a_free_port_is_remembered(tmp_path: Path) -> None:
    assert remembered_access_point(tmp_path) is None
    first = choose_access_point(tmp_path, "127.0.0.1", 0)
    assert 20000 <= first.port < 30000
    # Even while another program has the port: kubeconfig files name it.
    with listen("127.0.0.1", first.port):
        assert choose_access_point(tmp_path, "127.0.0.1", 0) == first
    assert remembered_access_point(tmp_path) == first
    assert choose_access_point(tmp_path, "127.0.0.1", 7443).port == 7443
    assert choose_access_point(tmp_path, "::1", 0) == AccessPoint("::1", 7443)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"address": "127.0.0.1", "port": 0}', '{"address": "x", "port": 1}']
)
def test_a_damaged_port_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "api.json").write_text(text)
    assert remembered_access_point(tmp_path) is None
    assert choose_access_point(tmp_path, "127.0.0.1", 0) == remembered_access_point(tmp_path)


def test_an_address_that_does_not_exist_yet(tmp_path: Path) -> None:
    point = choose_access_point(tmp_path, "192.0.2.1", 0)
    assert 20000 <= point.port < 30000
    assert choose_access_point(tmp_path, "192.0.2.1", 0) == point


def test_a_missing_root_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PodtuiError, match="cannot choose a port"):
        choose_access_point(tmp_path / "missing", "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:20001"),
        ("::1", "https://[::1]:20001"),
        ("0.0.0.0", "https://127.0.0.1:20001"),
        ("::", "https://[::1]:20001"),
        ("10.0.0.7", "https://10.0.0.7:20001"),
    ],
)
def test_url_for_clients(address: str, url: str) -> None:
    assert AccessPoint(address, 20001).url == url


def test_the_kubeconfig_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("of before")
    path.chmod(0o644)
    write_kubeconfig(path, AccessPoint("127.0.0.1", 20001), b"authority", "tok")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = yaml.safe_load(path.read_text())
    cluster = found["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"authority"
    assert cluster["server"] == "https://127.0.0.1:20001"
    assert found["users"][0]["user"] == {"token": "tok"}
    assert found["current-context"] == found["contexts"][0]["name"]
