"""The limit of connections for published Services."""

from __future__ import annotations

import resource

import pytest

from podtui.agent.services import max_connections
from podtui.services.proxies import MAX_TOTAL


@pytest.mark.parametrize(
    ("limits", "raised", "expected"),
    [
        ((1024, resource.RLIM_INFINITY), 10240, MAX_TOTAL),
        ((1024, 4096), 4096, 1024),
        ((1024, 1024), 0, 64),
        ((20000, 20000), 0, MAX_TOTAL),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 0, MAX_TOTAL),
    ],
)
def test_the_process_gets_the_files_for_its_connections(
    limits: tuple[int, int], raised: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, value: changes.append(value))
    assert max_connections() == expected
    assert changes == ([(raised, limits[1])] if raised else [])
