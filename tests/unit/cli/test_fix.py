"""``podtui check --fix``: mechanical fixes, shown as a diff, written by a rename."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

from podtui.cli import main
from podtui.cli.fix import fix_text
from podtui.manifest.diagnose import read_manifest

RECORDS = sorted(GOLDEN.glob("**/pod.json"))
GOLDEN_PODS = [path for path in RECORDS if path.read_bytes().startswith(b"{")]
BROKEN = """# Kept: a comment
apiVersion: v2
kind: pod
metadata:
  name: My_App      # the name
  labels: {version: 1.20, tier: yes}   # numbers
spec:
  restartpolicy: never
  containers:
    - name: web
      image: busybox:1.36
      imagePullpolicy: ifnotpresent
      env:
        - name: PORT
          value: 8080   # the port
      ports:
        - containerPort: "80"
          protocol: tcp
      command: [sleep, 3600]
      terminationGracePeriodSeconds: 5
      livenessProbe:
        httpGet: {port: htp}
      readinessProbe:
        httpGet: {port: http}
      volumeMounts:
        - {name: Data, mountPath: /data, readonly: true}
  volumes:
    - name: data
      emptyDir: {}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  PORT: 8080
  FLAG: yes
"""
FIXED = """# Kept: a comment
apiVersion: v1
kind: Pod
metadata:
  name: my-app      # the name
  labels: {version: "1.20", tier: "yes"}   # numbers
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  containers:
    - name: web
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      env:
        - name: PORT
          value: "8080"   # the port
      ports:
        - containerPort: 80
          protocol: TCP
      command: [sleep, "3600"]
      livenessProbe:
        httpGet: {port: htp}
      readinessProbe:
        httpGet: {port: http}
      volumeMounts:
        - {name: data, mountPath: /data, readOnly: true}
  volumes:
    - name: data
      emptyDir: {}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  PORT: "8080"
  FLAG: "yes"
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {pin: 1234}\n"


def fixed(text: bytes, *, strict: bool = False) -> bytes:
    return fix_text("/m/x.yaml", text, node_name="n1", strict=strict).after


def run(tmp_path: Path, *words: str) -> int:
    return main(["check", "--root-dir", str(tmp_path / "root"), *words])


def test_only_mechanical_fixes_are_applied(tmp_path: Path) -> None:
    assert fixed(BROKEN.encode()).decode() == FIXED


def test_fixes_are_repeated_until_nothing_is_left() -> None:
    text = b"metadata: {name: a}\nspec: {containers: [{name: a, image: b, stdin: 'true'}]}\n"
    assert fixed(text) == (
        b"apiVersion: v1\nkind: Pod\n"
        b"metadata: {name: a}\nspec: {containers: [{name: a, image: b, stdin: true}]}\n"
    )


@pytest.mark.parametrize("indent", [None, 4])
def test_the_record_of_a_real_api_server_becomes_a_manifest(indent: int | None) -> None:
    for path in GOLDEN_PODS:
        raw = msgspec.json.decode(path.read_bytes())
        text = msgspec.json.encode(raw)
        if indent is not None:
            text = msgspec.json.format(text, indent=indent)
        after = fixed(text)
        left = read_manifest("/m/x.json", after, node_name="n1").diagnostics
        assert not {"ClusterCopy", "IgnoredField"} & {d.code for d in left}, path
        tree: dict[str, Any] = msgspec.json.decode(after)
        assert "status" not in tree, path
        assert "uid" not in tree["metadata"], path
        # Everything that the author wrote is kept.
        for name in ("image", "command", "args", "env", "ports", "resources"):
            for old, new in zip(raw["spec"]["containers"], tree["spec"]["containers"], strict=True):
                assert old.get(name) == new.get(name), path


def test_files_keep_their_mode_and_a_second_run_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(BROKEN)
    path.chmod(0o640)
    before = path.stat().st_ino
    assert run(tmp_path, "--fix", "--yes", str(path)) == 0
    output = capsys.readouterr().out
    assert "-kind: pod\n" in output
    assert "+kind: Pod\n" in output
    assert path.read_text() == FIXED
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_ino != before
    assert os.listdir(tmp_path) == ["app.yaml"]
    assert run(tmp_path, "--fix", "--yes", str(path)) == 0
    assert "There is nothing to fix mechanically." in capsys.readouterr().out
    assert path.read_text() == FIXED


def test_without_a_terminal_the_diff_is_shown_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(BROKEN)
    assert run(tmp_path, "--fix", str(path)) == 1
    assert "Nothing was written: --yes fixes " in capsys.readouterr().out
    assert path.read_text() == BROKEN


@pytest.mark.parametrize(("answer", "status"), [(True, 0), (False, 1)])
def test_in_a_terminal_the_diff_is_followed_by_a_prompt(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,
    status: int,
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(BROKEN)
    questions: list[str] = []

    def confirm(question: str) -> bool:
        questions.append(question)
        return answer

    monkeypatch.setattr("podtui.cli.check.confirm", confirm)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert run(tmp_path, "--fix", str(path)) == status
    assert len(questions) == 1
    assert questions[0].endswith(" findings in 1 file?")
    assert path.read_text() == (FIXED if answer else BROKEN)


def test_the_diff_shows_no_secret_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SECRET)
    assert run(tmp_path, "--fix", "--yes", str(path)) == 0
    assert "1234" not in capsys.readouterr().out
    assert path.read_text() == SECRET.replace("1234", '"1234"')


def test_errors_that_remain_make_it_fail(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(BROKEN.replace("image: busybox:1.36", "image: 'a:1'\n      nonsense: 1"))
    assert run(tmp_path, "--fix", "--yes", str(path)) == 1
    assert "restartPolicy: Never" in path.read_text()


def test_a_compose_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text("version: '3'\nservices: {web: {image: nginx}}\n")
    before = path.read_bytes()
    assert run(tmp_path, "--fix", "--yes", str(path)) == 1
    assert path.read_bytes() == before


def test_stdin_is_fixed_to_stdout(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BROKEN.encode())))
    assert run(tmp_path, "--fix", "-") == 0
    captured = capfdbinary.readouterr()
    assert captured.out == FIXED.encode()
    assert b'there is no port "htp"' in captured.err


def test_json_output_reports_the_fixed_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(BROKEN)
    assert run(tmp_path, "--fix", "--yes", "-o", "json", str(path)) == 0
    captured = capsys.readouterr()
    assert msgspec.json.decode(captured.out)[0]["state"] == "Accepted"
    assert "+kind: Pod" in captured.err


PIECES = BROKEN.splitlines(keepends=True)


@given(
    st.lists(st.tuples(st.integers(0, len(PIECES) - 1), st.sampled_from(["drop", "twice", "in"]))),
    st.booleans(),
)
@examples(100)
def test_fixing_terminates_and_adds_no_errors(changes: list[tuple[int, str]], strict: bool) -> None:
    lines: list[str] = [str(piece) for piece in PIECES]
    for index, what in changes:
        lines[index] = {"drop": "", "twice": lines[index] * 2, "in": f"  {lines[index]}"}[what]
    text = "".join(lines).encode()
    after = fixed(text, strict=strict)
    assert fixed(after, strict=strict) == after
    before = read_manifest("/m/x.yaml", text, node_name="n1", strict=strict)
    result = read_manifest("/m/x.yaml", after, node_name="n1", strict=strict)
    assert bool(result.pods) >= bool(before.pods)
    unread = {"InvalidYAML", "DuplicateKey", "InvalidAlias"}
    assert unread & {d.code for d in result.diagnostics} <= {d.code for d in before.diagnostics}
    assert after.count(b"#") == text.count(b"#")
