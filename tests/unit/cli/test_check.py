"""The node that ``podtui check`` tries pods on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from podtui.cli import main
from podtui.cli.check import lacking_text

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: "busybox:1.36", resources: {requests: {cpu: "9999"}}}]}
"""


def test_check_works_while_the_agent_has_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: object, **__: object) -> dict[str, Any]:
        return {"items": []}

    monkeypatch.setattr("podtui.cli.check.get_json", nothing)
    monkeypatch.setenv("PODTUI_CONFIG", "")
    (tmp_path / "huge.yaml").write_text(POD)
    assert main(["check", "--root-dir", str(tmp_path), str(tmp_path / "huge.yaml")]) == 0
    output = capsys.readouterr().out
    assert "this node (this machine without pods; its agent is starting) would not admit" in output
    assert re.search(r"admit the pod: cpu: 9999 requested, \S+ of \S+ free", output), output
    assert "fix: lower the requests" in output


def test_missing_resources_are_shown_as_quantities() -> None:
    lacks = [("cpu", 3500, 250, 2000), ("memory", 64 * 1024**4, 0, 24 * 1024**3),
             ("pods", 1, 110, 110)]  # fmt: skip
    assert lacking_text(lacks) == (
        "cpu: 3500m requested, 1750m of 2 free; memory: 64Ti requested, 24Gi of 24Gi free;"
        " pods: 1 requested, 0 of 110 free"
    )


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: d}\n", 1),
        ("apiVersion: v1\nkind: PodTemplate\nmetadata: {name: d}\n", 1),
        ("metadata: {name: d}\n", 1),
        ("[unfinished\n", 1),
        ("apiVersion: example.com/v1\nkind: Other\nmetadata: {name: d}\n", 0),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\n", 0),
    ],
)
def test_pods_of_a_file_that_do_not_run_make_it_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, status: int
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        f"spec: {{containers: [{{name: a, image: b}}]}}\n---\n{document}"
    )
    assert main(["check", "--root-dir", str(tmp_path / "r"), str(path)]) == status
    assert ("1 of them about what does not run" in capsys.readouterr().out) is bool(status)
