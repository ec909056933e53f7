"""Files that are not Pod manifests are recognized, with one finding and advice each."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from manifests import diagnostics, pod_text

from podtui.api.local import Severity

COMPOSE = """version: "3"
services:
  web:
    image: nginx:1.25
    ports: ["8080:80"]
    depends_on: [db]
  db:
    image: postgres:16
    volumes: ["pgdata:/var/lib/postgresql/data"]
volumes:
  pgdata:
"""
OLD_COMPOSE = """web:
  image: nginx
  links: [db]
db:
  image: postgres
  volumes: [/data]
"""
KUSTOMIZATION = "resources:\n- pod.yaml\nnamePrefix: dev-\n"
HELM = """apiVersion: v1
kind: Pod
metadata:
  name: {{ include "web.fullname" . }}
  labels:
    {{- include "web.labels" . | nindent 4 }}
spec:
  containers:
    - name: web
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
"""
HELM_QUOTED = """apiVersion: v1
kind: Pod
metadata:
  name: "{{ .Release.Name }}-web"
spec:
  containers:
    - {name: web, image: "{{ .Values.image }}"}
"""
CHART = "apiVersion: v2\nname: web\ntype: application\nversion: 0.1.0\nappVersion: 1.16.0\n"
VALUES = """replicaCount: 1
image:
  repository: nginx
  pullPolicy: IfNotPresent
nameOverride: ""
service: {type: ClusterIP, port: 80}
"""
CONFLICT = """apiVersion: v1
kind: Pod
metadata:
<<<<<<< HEAD
  name: a
=======
  name: b
>>>>>>> other
spec: {}
"""
HELM_ADVICE = "helm template"


@pytest.mark.parametrize(
    ("text", "message", "advice", "line"),
    [
        (COMPOSE, "a Docker Compose file", "one container per service (web, db)", 2),
        ("name: x\nservices: {api: {build: .}}\n", "a Docker Compose file", "(api)", 2),
        (OLD_COMPOSE, "a Docker Compose file", "(web, db)", 1),
        (KUSTOMIZATION, "a kustomization", "kubectl kustomize", 1),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "a kustomization",
         "kubectl kustomize", 2),
        (HELM, "a Helm template", HELM_ADVICE, 4),
        (HELM_QUOTED, "a Helm template", HELM_ADVICE, 4),
        (CHART, "the Chart.yaml of a Helm chart", HELM_ADVICE, 1),
        (VALUES, "the values of a Helm chart", HELM_ADVICE, 1),
        ("metadata:\n  name: {{ app }}\n", "a template", "render it first", 2),
        ("a:\n  {% if x %}\n  b: 1\n  {% endif %}\n", "a template", "render it first", 2),
        (CONFLICT, "an unresolved merge conflict", "keep one of the two", 4),
        ("containers:\n- {name: a, image: b}\n", "the spec of a Pod", "put it under spec", 1),
        ("apiVersion: v1\nkind: Config\nclusters: []\nusers: []\n", "a kubeconfig",
         "podtui --kubeconfig FILE", 2),
        ("kind: KubeletConfiguration\nstaticPodPath: /x\n", "a kubelet's settings",
         "podtui --config FILE", 1),
        ('{"name": "x", "version": "1", "scripts": {}}', "an npm package.json", "move it out", 1),
        ('{"auths": {}}', "a Docker client configuration", "move it out", 1),
        ("on: [push]\njobs: {t: {runs-on: x}}\n", "a GitHub Actions workflow", "move it out", 2),
        ("stages: [a]\nb: {script: [make]}\n", "a GitLab CI configuration", "move it out", 1),
        ("openapi: 3.0.0\npaths: {}\n", "an OpenAPI description", "move it out", 1),
        ("scrape_configs: []\n", "a Prometheus configuration", "move it out", 1),
        ("- hosts: all\n  tasks: []\n", "an Ansible playbook", "move it out", 1),
        ("- kind: Pod\n- kind: Pod\n", "a list of objects", "a kind: List", 1),
        ("colour: red\nsize: 3\n", "not a Kubernetes object", "begin its name with a dot", 1),
        ("# Pods\n\nThese are [mine](x):\n\n    podtui .\n\n- a\n- b\n", "Markdown text",
         "move it out", 1),
        ("remember the milk\n", "plain text", "move it out", 1),
        ("#!/bin/sh\nset -e\n", "a script", "move it out", 1),
        ("# build\nFROM node:20 AS build\nRUN npm ci\n", "a Dockerfile", "move it out", 1),
        ("A=b\nexport C=d\n", "a file of environment variables", "move it out", 1),
        ("[server]\nport = 80\n", "INI or TOML", "move it out", 1),
        ('resource "a" "b" {\n  name = "c"\n}\n', "a Terraform file", "move it out", 1),
        ("<!DOCTYPE html>\n<p>x</p>\n", "HTML or XML", "move it out", 1),
        ("-----BEGIN CERTIFICATE-----\nMII\n", "a certificate or key", "move it out", 1),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "a diff", "move it out", 1),
    ],
)  # fmt: skip
def test_a_foreign_file_gets_one_finding(text: str, message: str, advice: str, line: int) -> None:
    (only,) = diagnostics(text)
    assert (only.code, only.severity, only.line) == ("NotAPod", Severity.ERROR, line)
    assert message in only.message
    assert advice in only.fix


def test_known_binary_formats_are_named() -> None:
    (only,) = diagnostics(b"\x1f\x8b\x08\x00\x00")
    assert only.message == "this is a gzip archive, not a Pod"


@pytest.mark.parametrize(
    "text",
    [
        pod_text().replace("kind: Pod", "kind Pod"),
        pod_text().replace("spec:", "spec"),
        pod_text().replace("kind: Pod", "Kind: Pod"),
        pod_text().replace("kind: Pod\n", ""),
        pod_text(extra='    command: [docker, ps, --format, "{{.Names}}"]\n   bad: indent\n'),
    ],
)
def test_an_invalid_manifest_is_not_taken_for_another_format(text: str) -> None:
    assert diagnostics(text)
    assert "NotAPod" not in {d.code for d in diagnostics(text)}


def test_braces_in_a_command_are_not_a_template() -> None:
    assert not diagnostics(pod_text(extra='    command: [docker, ps, --format, "{{.Names}}"]\n'))


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("${APP}", "replace the placeholder ${APP}; envsubst can do it"),
        ("${APP:-web}", "replace the placeholder ${APP:-web}"),
        ("<APP NAME>", "replace the placeholder <APP NAME>"),
        ("App", 'a valid name: "app"'),
    ],
)
def test_a_placeholder_in_a_name_is_reported(name: str, fix: str) -> None:
    (only,) = diagnostics(pod_text(name))
    assert only.fix == fix


def test_under_strict_messages_are_kept_with_correct_advice() -> None:
    results = diagnostics(COMPOSE, strict=True)
    assert results[0].message == "Required value"
    assert "Docker Compose" in results[0].fix
    assert not any(d.fix for d in results[1:])


def test_a_misspelt_kind_beside_a_config_map_is_an_error() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    (only,) = diagnostics(f"{config}---\n{pod_text().replace('kind: Pod', 'kind: pod')}")
    assert (only.severity, only.fix) == (Severity.ERROR, "write kind: Pod")


def test_a_misspelt_kind_is_the_first_error_of_its_document() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    text = f"{config}foo: 1\n---\napiVersion: v1\nkind: Pood\nmetadata: {{name: x}}\n"
    places = [(d.line, d.field) for d in diagnostics(text)]
    assert places == [(4, "foo"), (7, "kind"), (6, "spec")]


@given(st.text(alphabet="{}%<>=-[]#:\"' \nabkind.Values", max_size=200))
@examples(300)
def test_any_text_gets_findings_without_failing(text: str) -> None:
    assert "InternalError" not in {d.code for d in diagnostics(text)}
