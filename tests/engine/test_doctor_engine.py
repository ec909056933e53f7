from __future__ import annotations

from pathlib import Path

from podtui.cli.doctor import examine
from podtui.settings import resolve


def test_a_real_engine_is_described(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PODTUI_NODE_NAME": "n1"}
    text, healthy = examine(resolve({}, environ, working=tmp_path).settings)
    assert healthy, text
    assert "✓ engine: docker " in text
