"""The user of a container, derived from its image."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtui.runtime.docker.image_users import (
    Accounts,
    User,
    local_accounts,
    process_user,
    read_accounts,
)

PASSWD = b"""root:x:0:0:root:/root:/bin/sh
# a comment
web:x:100:101:Web:/:/bin/false
odd:x:abc:1::/:
broken
web:x:7:7::/:
"""
GROUP = b"""root:x:0:root
wheel:x:10:root,web
data:x:20:web
short:x:30
bad:x:y:web
"""
ACCOUNTS = read_accounts(PASSWD, GROUP)


def test_accounts_are_parsed_and_invalid_lines_ignored() -> None:
    expected = Accounts(
        users=(("root", 0, 0), ("web", 100, 101), ("web", 7, 7)),
        groups=(
            ("root", 0, ("root",)),
            ("wheel", 10, ("root", "web")),
            ("data", 20, ("web",)),
            ("short", 30, ()),
        ),
    )
    assert expected == ACCOUNTS


@pytest.mark.parametrize(
    ("spec", "added", "user"),
    [
        ("", (), (0, 0, (0, 10))),
        ("0", ("5",), (0, 0, (0, 10, 5))),
        ("web", (), (100, 101, (101, 10, 20))),
        ("100", (), (100, 101, (101, 10, 20))),
        ("web:data", (), (100, 20, (20,))),
        ("web:9", ("9", "11"), (100, 9, (9, 11))),
        ("4000", (), (4000, 0, (0,))),
        ("4000:short", (), (4000, 30, (30,))),
        ("nobody", (), None),
        ("web:nobody", (), None),
    ],
)
def test_users_as_the_engine_resolves_them(
    spec: str, added: tuple[str, ...], user: User | None
) -> None:
    assert process_user(spec, added, ACCOUNTS) == user


def test_numeric_users_need_no_accounts() -> None:
    assert process_user("1000:3000", ("2",), None) == (1000, 3000, (3000, 2))
    assert process_user("1000", (), None) is None
    assert process_user("", (), None) is None
    assert process_user("", (), Accounts()) == (0, 0, (0,))


def test_accounts_from_local_layers(tmp_path: Path) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "etc").mkdir(parents=True)
    (lower / "etc").mkdir(parents=True)
    (lower / "etc" / "passwd").write_bytes(PASSWD)
    (lower / "etc" / "group").write_bytes(b"")
    (upper / "etc" / "group").write_bytes(GROUP)
    layers = {"Name": "overlay2", "Data": {"LowerDir": f"{upper}:{lower}"}}
    assert local_accounts(layers) == ACCOUNTS
    assert local_accounts({"Name": "zfs", "Data": {}}) is None
    assert local_accounts(layers | {"Data": {"LowerDir": f"{tmp_path}/none"}}) is None
    (upper / "etc" / "passwd").symlink_to("/etc/passwd")
    assert local_accounts(layers) is None
