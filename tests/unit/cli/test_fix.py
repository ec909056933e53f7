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

from podtui.api import v1
from podtui.api.shape import fields
from podtui.cli import main
from podtui.editing.edits import apply_edits
from podtui.editing.findings import is_better
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.fixes import fix_text, read_with_fix

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
    assert_better(text, after, strict=strict)


def assert_better(text: bytes, after: bytes, *, strict: bool = False) -> None:
    """A changed text has fewer findings, and no new one."""
    before, new = (
        read_manifest("/m/x.yaml", data, node_name="n1", strict=strict, most=None).diagnostics
        for data in (text, after)
    )
    assert is_better(before, new), [d for d in new if d not in before]
    assert after == text or len(new) < len(before)


POD = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: busybox:1.36
"""
# Fixes of these faults would be guesses, or make the file worse.
UNFIXABLE = {
    "the right key is there": POD + "    resources: {request: {cpu: 1}, requests: {memory: 1Gi}}\n",
    "a flow map has the right key": POD + "    env: [{name: A, valu: x, value: z}]\n",
    "the key in another case is there": POD + "    Image: nginx\n",
    "two keys mean the same field": POD + "    env: [{name: A, valu: x, vale: z, value: c}]\n",
    "the field is another one": POD + "  volumes: [{name: d, rbd: {monitors: [m], image: i,"
    " imageformat: '2'}}]\n",
    "the field is not similar enough": POD + "    cmd: x\n",
    "the field of another volume source": POD + "  volumes: [{name: d, storageos: {pool: p}}]\n",
    "a second volume source": POD
    + "  volumes: [{name: d, hostPath: {path: /x}, medium: Memory}]\n",
    "a second handler": POD + "    livenessProbe: {tcpSocket: {port: 80}, path: /x}\n",
    "the field of several probes": POD + "    periodSeconds: 5\n"
    "    livenessProbe: {tcpSocket: {port: 80}}\n    readinessProbe: {tcpSocket: {port: 80}}\n",
    "the opposite value": POD + "  tolerations: [{key: a, operator: NotExists}]\n",
    "another volume by its number": POD + "    volumeMounts: [{name: data-3, mountPath: /d}]\n"
    "  volumes: [{name: data-1, emptyDir: {}}, {name: data-2, emptyDir: {}}]\n",
    "two similar volumes": POD + "    volumeMounts: [{name: web-dat, mountPath: /d}]\n"
    "  volumes: [{name: web-data, emptyDir: {}}, {name: web-date, emptyDir: {}}]\n",
    "a value that stays invalid": POD + "    ports: [{containerPort: '99999'}]\n",
    "skaffold": "apiVersion: skaffold/v4beta13\nkind: Config\nmetadata: {name: a}\nbuild: {}\n",
    "a list of another group": "apiVersion: example.com/v1\nkind: List\nitems: []\n",
    "ConfigMapList": "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n",
    "SecretList": "apiVersion: v1\nkind: SecretList\nitems: []\n",
    "a core kind of another group": POD.replace("apiVersion: v1", "apiVersion: example.com/v1"),
    "Prometheus": "apiVersion: monitoring.coreos.com/v1\nkind: Pods\nmetadata: {name: a}\n",
    "a ConfigMap without its kind": "apiVersion: v1\nmetadata: {name: a}\ndata: {a: b}\n",
    "a Deployment without its kind": "apiVersion: apps/v1\nmetadata: {name: a}\n"
    "spec: {replicas: 1, template: {spec: {containers: [{name: a, image: b}]}}}\n",
    "another group without a kind": POD.replace("v1\nkind: Pod", "example.com/v1"),
}


@pytest.mark.parametrize("name", UNFIXABLE)
def test_a_fix_that_would_be_a_guess_is_not_applied(name: str) -> None:
    text = UNFIXABLE[name].encode()
    assert read_manifest("/m/x.yaml", text, node_name="n1").diagnostics
    assert fixed(text) == text
    assert read_with_fix("/m/x.yaml", text, node_name="n1").fix is None


def test_the_agent_finds_the_same_fixes_as_the_command() -> None:
    found = read_with_fix("/m/x.yaml", BROKEN.encode(), node_name="n1").fix
    assert found is not None
    assert apply_edits(BROKEN, found.edits) == FIXED
    text = POD + "    imagePullpolicy: always\n    resources: {request: {}, requests: {}}\n"
    found = read_with_fix("/m/x.yaml", text.encode(), node_name="n1").fix
    assert found is not None
    # The value is found only with the right key: it is none of the file's two findings.
    assert (found.title, found.errors) == ('Write "imagePullPolicy"', 1)
    assert read_with_fix("/m/x.yaml", SECRET.encode(), node_name="n1").fix is None


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("feed", ["\n", "\r\n"])
def test_the_agents_edits_fit_any_line_breaks(mark: str, feed: str) -> None:
    text = mark + f"{POD}    stdinn: true".replace("kind: Pod", "kind: pod").replace("\n", feed)
    result = read_with_fix("/m/x.yaml", text.encode(), node_name="n1")
    assert result.fix is not None
    assert apply_edits(result.text, result.fix.edits).encode() == fixed(text.encode())


def test_a_fix_that_makes_way_for_another_is_followed_by_it() -> None:
    text = POD + "    volumemounts: [{name: d, mountPath: /d}]\n"
    text += "  volumes:\n  - ame: d\n  - ame: d\n    emptyDir: {}\n"
    after = fixed(text.encode())
    assert b"volumeMounts" in after
    assert fixed(after) == after


def test_a_fix_in_a_file_with_unfixable_faults_is_applied() -> None:
    text = POD + "    resources: {request: {}, requests: {}}\n    imagePullpolicy: always\n"
    after = fixed(text.encode()).decode()
    assert after == text.replace("imagePullpolicy: always", "imagePullPolicy: Always")


def test_more_findings_than_are_shown_are_fixed_as_well() -> None:
    env = "".join(f"    - {{name: A{n}, value: {n}}}\n" for n in range(150))
    assert fixed(f"{POD}    env:\n{env}".encode()).count(b'"') == 300


def test_a_fix_that_gives_two_pods_one_name_is_not_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    bad = tmp_path / "b.yaml"
    bad.write_text(POD.replace("name: web}", "name: Web}"))
    assert run(tmp_path, "--fix", "--yes", str(tmp_path)) == 1
    assert "name: Web}" in bad.read_text()
    assert "nothing to fix" in capsys.readouterr().out
    assert run(tmp_path, "--fix", "--yes", str(bad)) == 0  # alone, there is no other pod


NAMES = sorted({*fields(v1.Container), *fields(v1.PodSpec), *fields(v1.Volume), *fields(v1.Probe)})
SLIPS = st.sampled_from(NAMES).flatmap(
    lambda name: st.tuples(
        st.just(name), st.integers(0, len(name) - 1), st.sampled_from(["drop", "twice", "upper"])
    )
)
VALUES = st.sampled_from(
    ["1", "'1'", "yes", "{}", "[]", "x", "{name: web}", "[{name: web}]", "{path: /x}", "always"]
)


@given(
    st.lists(st.tuples(SLIPS, VALUES, st.sampled_from(["    ", "  ", "      "])), max_size=6),
    st.sampled_from(["v1", "v2", "V1", "apps/v1", "example.com/v1", ""]),
    st.sampled_from(["Pod", "pod", "Pods", "Config", "ConfigMap", "configmaps", "PodList", ""]),
    st.booleans(),
)
@examples(200)
def test_no_fix_makes_a_file_worse(
    slips: list[tuple[tuple[str, int, str], str, str]], version: str, kind: str, strict: bool
) -> None:
    lines = [POD.replace("v1", version, 1).replace("Pod", kind, 1)]
    for (name, at, slip), value, indent in slips:
        letter = {"drop": "", "twice": name[at] * 2, "upper": name[at].upper()}[slip]
        lines.append(f"{indent}{name[:at]}{letter}{name[at + 1 :]}: {value}\n")
    text = "".join(lines).encode()
    after = fixed(text, strict=strict)
    assert_better(text, after, strict=strict)
    foreign = "/" in version
    assert not foreign or after.startswith(f"apiVersion: {version}\n".encode())
    with_fix = read_with_fix("/m/x.yaml", text, node_name="n1", strict=strict).fix
    if with_fix is not None:
        assert after != text
        # An agent makes less effort: it may find fewer fixes.
        assert_better(text, apply_edits(text.decode(), with_fix.edits).encode(), strict=strict)


def test_a_relative_host_path_is_resolved_against_the_folder_of_the_file() -> None:
    text = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: c, image: i, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]}
  volumes:
  - name: a   # pages
    hostPath: {path: ./html}
  - {name: b, hostPath: {path: "../data/b", type: Directory}}
"""
    fixed = fix_text("/srv/pods/web.yaml", text.encode(), node_name="n1", strict=False)
    assert fixed.after.decode() == text.replace("./html", "/srv/pods/html").replace(
        "../data/b", "/srv/data/b"
    )
