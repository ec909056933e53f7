"""The script that sets up an engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scripts import engine


@pytest.mark.parametrize("running", [True, False])
def test_an_engine_that_is_installed_gets_what_services_need(
    monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    installed: list[str] = []

    def install(packages: Sequence[str]) -> bool:
        installed.extend(packages)
        return True

    def find_program(name: str) -> str | None:
        return name if name == "dockerd" else None

    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(engine, "answering", lambda: running)
    monkeypatch.setattr(engine, "start", lambda: True)
    monkeypatch.setattr(engine, "find_program", find_program)
    monkeypatch.setattr(engine, "install", install)
    assert engine.ensure() == "auto"
    assert installed == ["nftables", "conntrack"]
