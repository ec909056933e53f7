"""Kustomizations in the folder, rendered by a program that stands for kubectl."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from manifests import NODE, pod_text, states, watch

from podtui.manifest.check import check_paths, render_text
from podtui.manifest.kustomize import read_kustomization, used_names

KUBECTL = """#!/bin/sh
[ "$1" = kustomize ] || exit 9
for file in "$2"/*.part; do [ -e "$file" ] && cat "$file"; done
if [ -e "$2/fails" ]; then
  echo "E1128 00:23:13.7 27373 run.go:72] \\"command failed\\" err=\\"no such file: a.yaml\\"" >&2
  exit 1
fi
exit 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    kubectl = programs / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    pods = tmp_path / "pods"
    pods.mkdir()
    return pods


def kustomization(path: Path, *resources: str, output: str = "") -> Path:
    path.mkdir(exist_ok=True)
    (path / "kustomization.yaml").write_text(f"resources: [{', '.join(resources)}]\n")
    (path / "output.part").write_text(output)
    return path


def test_the_output_of_a_subfolder_is_read(folder: Path) -> None:
    kustomization(folder / "shop", output=pod_text("a") + "---\n" + pod_text("b", extra="  x: y\n"))
    [check] = check_paths([folder], node_name=NODE)
    assert (Path(check.path).name, check.state) == ("shop", "Invalid")
    [finding] = check.diagnostics
    assert finding.line is None
    assert "(line 18 of the rendered output)" in finding.message
    kustomization(folder / "shop", output=pod_text("a") + "---\n" + pod_text("b"))
    [check] = check_paths([folder], node_name=NODE)
    assert [pod.metadata.name for pod in check.pods] == ["a-n1", "b-n1"]
    assert "runs: Pod default/a-n1, Pod default/b-n1" in render_text([check])


def test_what_a_kustomization_uses_is_not_read_alone(folder: Path) -> None:
    kustomization(folder / "base", "web.yaml")
    kustomization(folder / "prod", "../base", output=pod_text())
    (folder / "extra.yaml").write_text("kind: [")
    (folder / "kustomization.yaml").write_text(
        "resources: [extra.yaml]\nconfigMapGenerator: [{name: a, files: [k=settings.txt]}]\n"
        "patches: [{path: patch.yaml}]\n"
    )
    assert used_names(str(folder)) == {
        "base": "prod",
        "extra.yaml": "kustomization.yaml",
        "settings.txt": "kustomization.yaml",
        "patch.yaml": "kustomization.yaml",
    }
    checks = {Path(c.path).name: c for c in check_paths([folder], node_name=NODE)}
    assert {name: check.state for name, check in checks.items()} == {
        "base": "Ignored",
        "extra.yaml": "Ignored",
        "kustomization.yaml": "Invalid",
        "prod": "Accepted",
    }
    # The stand-in for kubectl prints nothing for the folder itself.
    assert checks["kustomization.yaml"].diagnostics[0].code == "EmptyManifest"
    assert checks["base"].message == "used by the kustomization prod"


def test_an_error_names_the_cause(folder: Path) -> None:
    path = kustomization(folder / "shop")
    (path / "fails").write_text("")
    [finding] = read_kustomization(str(path), node_name=NODE).diagnostics
    assert (finding.code, finding.path) == ("KustomizeFailed", str(path))
    assert finding.message == "the kustomization cannot be rendered: no such file: a.yaml"


def test_without_a_program_one_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    path = kustomization(folder / "shop")
    [finding] = read_kustomization(str(path), node_name=NODE).diagnostics
    assert finding.code == "KustomizeMissing"
    assert finding.fix.startswith("install kubectl or kustomize")


async def test_changes_below_the_folder_are_followed(folder: Path) -> None:
    async with watch(folder) as watched:
        kustomization(folder / "shop", output=pod_text("a"))
        await watched.until(lambda f: states(f) == {"shop": "Accepted"})
        (folder / "shop" / "output.part").write_text(pod_text("b"))
        os.utime(folder / "shop" / "output.part", (1, 1))
        (folder / "shop" / "z.part").write_text("---\n" + pod_text("c"))
        seen = await watched.until(lambda f: len(f.pods) == 2)
        assert sorted(pod.metadata.name for pod in seen.pods.values()) == ["b-n1", "c-n1"]
        (folder / "shop" / "kustomization.yaml").unlink()
        await watched.until(lambda f: not f.pods)
