"""`python -m corpus` on a small corpus of its own, with real agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.__main__ import main

SHOP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      initContainers: [{name: migrate, image: web, command: [/migrate]}]
      containers:
      - name: web
        image: web
        envFrom: [{configMapRef: {name: settings}}]
        resources: {requests: {cpu: "40"}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: report, image: report}]}
"""
WITHOUT_SECRET = """\
apiVersion: v1
kind: Pod
metadata: {name: blog}
spec:
  containers:
  - name: blog
    image: blog
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}]
"""
REFUSED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: web}]}}}
"""
KUBECTL = """\
#!/bin/sh
test "$1" = kustomize && cat "$2/base.txt"
"""


def test_the_apps_of_a_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "corpus/first/shop/all.yaml": SHOP,
        "corpus/first/blog/pod.yaml": WITHOUT_SECRET,
        "corpus/second/web.yaml": REFUSED,
        "corpus/second/rendered/kustomization.yaml": "resources: [base.txt]\n",
        "corpus/second/rendered/base.txt": SHOP,
        "bin/kubectl": KUBECTL,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin" / "kubectl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert main([str(tmp_path / "corpus"), "--quiet", "10"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    table = {row[0].removeprefix("| "): row[1:] for row in rows if len(row) > 1}
    assert table["first"] == [
        "2", "1 (50.0 %)", "3", "2 (66.7 %)",
        "1", "1 (100.0 %)", "2", "2 (100.0 %)", "3 (100.0 %) |",
    ]  # fmt: skip
    assert table["second"][:4] == ["2", "1 (50.0 %)", "3", "2 (66.7 %)"]
    assert table["blog"][0] == "Pod blog"
    assert table["blog"][1].startswith("needs Secret database. ")
    assert "needs the Secret database" in table["blog"][1]
    assert "does not match template `labels`" in table["."][1]
