"""Exceptions are declared for existing cases, and the matrix covers its engines."""

from __future__ import annotations

import re
import sys

import pytest
from repository import ROOT
from unavailable import UNAVAILABLE


def cases() -> set[str]:
    from engine_matrix import TESTS

    files = [*(ROOT / "tests/contract").glob("test_*.py")]
    files += [ROOT / path for path in TESTS if path.endswith(".py") and path[0] != "-"]
    defined = r"^(?:async )?def (test_\w+)"
    return {name for file in files for name in re.findall(defined, file.read_text(), re.MULTILINE)}


def test_every_case_that_is_declared_unavailable_exists() -> None:
    assert {one.case for one in UNAVAILABLE} <= cases()


def test_engines_are_the_ones_that_the_documents_name() -> None:
    from engine_matrix import BY_NAME

    assert list(BY_NAME) == ["docker-rootless", "podman", "podman-rootless"]
    recipe = re.search(r"^test: .*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert "engines" in recipe[0].split()


@pytest.mark.parametrize("ci", ["true", ""])
def test_an_ordinary_user_is_informed_that_the_engines_are_not_tested(
    ci: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import engine_matrix

    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(engine_matrix.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["engine_matrix.py", "contract"])
    assert engine_matrix.main() == (1 if ci else 0)
    assert "Only root can set up other engines" in capsys.readouterr().err
