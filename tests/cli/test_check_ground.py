"""On which node ``podtui check`` tries pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podtui.cli import main

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: "busybox:1.36", resources: {requests: {cpu: "9999"}}}]}
"""


def test_an_agent_that_has_no_node_yet_keeps_nobody_from_checking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: object, **__: object) -> dict[str, Any]:
        return {"items": []}

    monkeypatch.setattr("podtui.agent.check.get_json", nothing)
    monkeypatch.setenv("PODTUI_CONFIG", "")
    (tmp_path / "huge.yaml").write_text(POD)
    assert main(["check", "--root-dir", str(tmp_path), str(tmp_path / "huge.yaml")]) == 0
    said = capsys.readouterr().out
    assert "this node (this machine, empty; its agent just starts) would not admit" in said
