"""``podtui check`` without its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from manifests import NODE, pod_text
from rich.cells import cell_len

from podtui.api.local import ManifestState
from podtui.manifest.check import check_paths, render_json, render_text


def test_text_output_has_position_line_caret_and_fix(folder: Path) -> None:
    path = folder / "web.yaml"
    path.write_text(pod_text(extra="\timage: x\n"))
    assert render_text(check_paths([path], node_name=NODE)).startswith(
        f"{path}:9:1: error: a tab cannot indent YAML"
    )
    path.write_text(pod_text(extra="    stdinn: true\n"))
    assert render_text(check_paths([path], node_name=NODE)) == (
        f'{path}:9:5: error: unknown field "stdinn" (spec.containers[0].stdinn)\n'
        "  9 |     stdinn: true\n"
        "    |     ^\n"
        '  fix: did you mean "stdin"?\n'
        "1 file, 1 error, 0 warnings\n"
    )


def test_the_caret_is_below_its_column_for_any_characters(tmp_path: Path) -> None:
    text = "metadata: {annotations: {界面: e\u0301}, nmae: web}\n"
    (tmp_path / "a.yaml").write_text(f"apiVersion: v1\nkind: Pod\n{text}spec: {{}}\n")
    lines = render_text(check_paths([tmp_path / "a.yaml"], node_name=NODE)).splitlines()
    at = next(at for at, row in enumerate(lines) if "unknown field" in row)
    shown, caret = lines[at + 1 : at + 3]
    assert cell_len(caret.partition("^")[0]) == cell_len(shown.partition("nmae")[0])


def test_folders_are_expanded_once_and_not_entered(folder: Path) -> None:
    (folder / "a.yaml").write_text(pod_text("a"))
    (folder / "b.yaml~").write_text("{")
    (folder / ".hidden.yaml").write_text("{")
    (folder / "sub").mkdir()
    (folder / "sub" / "c.yaml").write_text("{")
    checks = check_paths([folder, folder / "a.yaml"], node_name=NODE)
    assert [(Path(c.path).name, c.state) for c in checks] == [
        ("a.yaml", ManifestState.ACCEPTED),
        ("b.yaml~", ManifestState.IGNORED),
        ("sub", ManifestState.IGNORED),
    ]
    assert [pod.metadata.name for pod in checks[0].pods] == ["a-n1"]
    text = render_text(checks)
    assert f"{folder}/a.yaml: ok: pod default/a-n1\n" in text
    assert "b.yaml~: ignored: an editor's backup\n" in text
    assert text.endswith("3 files, 0 errors, 0 warnings\n")


def test_results_keep_the_requested_order(folder: Path) -> None:
    for name in "ab":
        (folder / f"{name}.yaml").write_text(pod_text(name))
    requested = [folder / "b.yaml", folder / "nope", folder / "a.yaml"]
    checks = check_paths(requested, node_name=NODE)
    assert [c.path for c in checks] == [str(p) for p in requested]
    assert [c.errors for c in checks] == [0, 1, 0]
    assert checks[1].diagnostics[0].message == "No such file or directory"


def test_files_of_one_folder_see_each_other(folder: Path) -> None:
    (folder / "a.yaml").write_text(pod_text())
    (folder / "b.yaml").write_text(pod_text())
    (folder / "c.yaml").write_text(
        pod_text("uses", extra="    envFrom: [{configMapRef: {name: m}}]\n")
    )
    (folder / "m.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n"
    )
    checks = {Path(c.path).name: c for c in check_paths([folder], node_name=NODE)}
    assert checks["c.yaml"].warnings == 1
    assert checks["c.yaml"].pods
    states = {checks[name].state for name in ("a.yaml", "b.yaml")}
    assert states == {ManifestState.ACCEPTED, ManifestState.DUPLICATE}
    assert "ConfigMap default/m" in render_text([checks["m.yaml"]])


def test_relative_paths_are_shown_as_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.yaml").write_text("[")
    monkeypatch.chdir(folder)
    text = render_text(check_paths(["a.yaml", Path()], node_name=NODE))
    assert text.startswith("a.yaml:")
    assert "1 file, 1 error" in text


def test_json_lists_files_with_their_diagnostics(folder: Path) -> None:
    (folder / "a.yaml").write_text(pod_text("a"))
    (folder / "b.yaml").write_text(pod_text("b", extra="    tty: 'true'\n"))
    good, bad = json.loads(render_json(check_paths([folder], node_name=NODE)))
    assert (good["state"], good["name"], good["diagnostics"]) == ("Accepted", "a-n1", [])
    assert bad["state"] == "Invalid"
    assert bad["diagnostics"] == [
        {
            "severity": "Error",
            "path": str(folder / "b.yaml"),
            "code": "FieldValueTypeInvalid",
            "message": 'found the string "true", but a boolean is expected',
            "line": 9,
            "column": 10,
            "field": "spec.containers[0].tty",
            "fix": "write it without quotes: true",
        }
    ]


def test_colour_and_long_and_hostile_lines(folder: Path) -> None:
    path = folder / "a.yaml"
    path.write_bytes(b"# \x1b[31m red\nx: [" + b"1, " * 100 + b"{]" + b"1, " * 100)
    plain = render_text(check_paths([path], node_name=NODE))
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) < 250
    path.write_text("a: [" + "1, " * 100 + "{]" + "1, " * 100)
    shown = render_text(check_paths([path], node_name=NODE), color=True)
    line, caret = shown.splitlines()[1:3]
    assert "…" in line
    assert "\x1b[31m^\x1b[0m" in caret


def test_no_secret_values_are_shown(folder: Path) -> None:
    path = folder / "s.yaml"
    path.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {p: hunter2!}\n")
    text = render_text(check_paths([path], node_name=NODE))
    assert "Invalid value: illegal base64 data at character 8 (data[p])" in text
    assert "hunter2" not in text


def test_unreadable_files_are_results(folder: Path) -> None:
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    checks = check_paths([folder, folder / "loop.yaml"], node_name=NODE)
    assert checks[0].state is ManifestState.IGNORED
    assert checks[-1].errors == 1


def test_a_file_of_kinds_that_are_not_served_is_ignored(tmp_path: Path) -> None:
    text = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: web}\n"
    (tmp_path / "a.yaml").write_text(text)
    [check] = check_paths([tmp_path], node_name=NODE)
    assert (check.state, check.errors, check.unread) == (ManifestState.IGNORED, 0, 0)
    assert check.message == "ignored: ServiceMonitor web (line 1)"
    assert "a.yaml:2:7: warning: ServiceMonitor of monitoring.coreos.com/v1 is not supported" in (
        render_text([check])
    )
