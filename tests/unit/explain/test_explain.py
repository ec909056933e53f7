"""Descriptions of fields: complete, of existing fields, and in agreement with their sources."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from repository import ROOT

from podtui.api import v1
from podtui.api.local import Severity
from podtui.api.shape import fields
from podtui.cli import main
from podtui.errors import UsageError
from podtui.explain import facts
from podtui.explain.explanation import explain, explain_pod_field
from podtui.explain.places import (
    POD,
    PodField,
    find_field,
    find_pod_field,
    paths_of_kinds,
    pod_field_of,
)
from podtui.explain.report import DEEPEST, render_json, render_text, render_tree, tree_data
from podtui.manifest.diagnose import read_manifest

WORDLESS = 0
"""Honoured fields without a description: may only decrease."""


def every_place(pod_field: PodField = POD, depth: int = 0) -> list[PodField]:
    found = [pod_field] if pod_field.path else []
    for child in pod_field.children if depth < DEEPEST else ():
        found += every_place(child, depth + 1)
    return found


PLACES = every_place()


def test_every_described_field_is_in_the_schema() -> None:
    texts = facts.texts()
    for table in (texts.fields, texts.defaults, texts.departures):
        for name in table:
            if name.startswith(("spec.", "metadata.")):
                assert pod_field_of(name) is not None, name
                continue
            owner, _, field = name.partition(".")
            assert field in fields(getattr(v1, owner)), name


def test_every_honoured_field_is_described() -> None:
    honoured = [p for p in PLACES if facts.support(p) == "honoured"]
    wordless = sorted({p.known_as for p in honoured if not facts.description(p)})
    assert len(honoured) > 200
    assert len(wordless) <= WORDLESS, wordless


def test_descriptions_are_short_sentences() -> None:
    for name, text in facts.texts().fields.items():
        assert re.fullmatch(r"[A-Z0-9].{2,240}[.]", text), name


def test_each_field_has_its_documented_support() -> None:
    """Compared with docs/pod-fields.md, by another parser than the script's."""
    words = {"honoured": "honoured", "accepted": "no-effect", "refused": "refused"}
    group, checked = "", 0
    for line in (ROOT / "docs" / "pod-fields.md").read_text().splitlines():
        group = line[3:] if line.startswith("## ") else group
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 4 or not cells[1].startswith("`"):
            continue
        pod_field = pod_field_of(f"{group}.{cells[1].strip('`')}")
        assert pod_field is not None
        assert facts.support(pod_field) == words[re.split(r"[ ,]", cells[2])[0]], pod_field.text
        checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("", ""),
        ("pod", ""),
        ("pods.spec", "spec"),
        ("Pod.spec.containers[0].image", "spec.containers.image"),
        ("spec.containers[name=web].ports[2].hostPort", "spec.containers.ports.hostPort"),
        (" spec.volumes.emptyDir ", "spec.volumes.emptyDir"),
        ("livenessProbe", "spec.containers.livenessProbe"),
        ("livenessProbe.httpGet.path", "spec.containers.livenessProbe.httpGet.path"),
        ("hostNetwork", "spec.hostNetwork"),
    ],
)
def test_ways_to_spell_a_field(typed: str, path: str) -> None:
    assert find_pod_field(typed).text == path


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("spec.container.image", "spec has no field 'container'; did you mean spec.containers?"),
        ("spec.containers.live", "did you mean spec.containers.livenessProbe?"),
        ("spec.image", "did you mean spec.containers.image?"),
        ("spec.hostname.x", "spec.hostname has no fields"),
        ("spec.zzzzzz", "spec has no field 'zzzzzz'; it has activeDeadlineSeconds"),
        ("livenesProbe", "did you mean spec.containers.livenessProbe?"),
        ("livenes", "did you mean spec.containers.livenessProbe?"),
        ("spec.containers.foo", "readinessProbe, resizePolicy, …"),
    ],
)
def test_an_unknown_field_suggests_a_similar_one(typed: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        find_pod_field(typed)


@examples(200)
@given(st.text(max_size=80))
def test_any_input_gets_an_answer_or_an_error(typed: str) -> None:
    try:
        pod_field = find_pod_field(typed)
    except UsageError:
        return
    assert pod_field_of(pod_field.text) == pod_field


VALID = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {
        "containers": [
            {"name": "a", "image": "a", "livenessProbe": {"exec": {"command": ["true"]}}}
        ],
        "volumes": [{"name": "v", "hostPath": {"path": "/tmp"}}],
        "tolerations": [{"operator": "Exists"}],
    },
}


@pytest.mark.parametrize(
    "path",
    [
        "metadata", "metadata.name", "metadata.labels", "spec", "spec.containers",
        "spec.containers.name", "spec.containers.image", "spec.containers.ports",
        "spec.containers.livenessProbe.exec.command", "spec.volumes.name",
        "spec.volumes.hostPath.path", "spec.volumes.hostPath.type", "spec.tolerations.key",
    ],
)  # fmt: skip
def test_a_field_is_required_where_check_misses_it(path: str) -> None:
    manifest = copy.deepcopy(VALID)
    *above, name = path.split(".")
    here: Any = manifest
    for step in above:
        here = here[step][0] if isinstance(here[step], list) else here[step]
    here.pop(name, None)
    read = read_manifest("/a.yaml", json.dumps(manifest).encode(), node_name="n")
    missed = any(one.severity == Severity.ERROR for one in read.diagnostics)
    assert explain(path).required is missed
    assert pod_field_of(path) is not None


def test_nothing_of_a_status_is_required() -> None:
    assert not explain("status.containerStatuses.name").required


def test_defaults_rules_and_values() -> None:
    probe = explain("spec.containers.startupProbe.periodSeconds")
    assert (probe.type, probe.default) == ("integer", "10")
    assert probe.rules == ("must be greater than or equal to 0",)
    policy = explain("spec.initContainers.imagePullPolicy")
    assert policy.values == ("Always", "IfNotPresent", "Never")
    assert "latest" in policy.default
    assert explain("spec.volumes.secret.defaultMode").default == "0644"
    assert explain("spec.containers.name").required
    assert explain("spec.containers.ports.protocol").default == "TCP"
    assert "spec.nodeName" in explain("spec.containers.env.valueFrom.fieldRef.fieldPath").values
    assert "metadata.labels" in explain("spec.volumes.downwardAPI.items.fieldRef.fieldPath").values


def test_a_rule_of_one_probe_is_not_shown_for_another() -> None:
    assert "must be 1" in explain("spec.containers.livenessProbe.successThreshold").rules
    assert "must be 1" not in explain("spec.containers.readinessProbe.successThreshold").rules


def test_support_of_a_field() -> None:
    assert explain("spec.schedulerName").support == "no-effect"
    assert explain("spec.volumes.nfs.server").support == "refused"
    assert explain("spec.volumes").support == "mixed"
    assert explain("status.phase").support == ""
    assert any(
        "loopback" in d for d in explain("spec.containers.livenessProbe.tcpSocket").departures
    )


def test_every_field_can_be_explained() -> None:
    for pod_field in PLACES:
        explanation = explain_pod_field(pod_field)
        first, *rest = render_text(explanation, 60).splitlines()
        assert first.startswith(f"{pod_field.text} <")
        assert json.loads(render_json(explanation))["path"] == pod_field.text
        shown = explanation.example.text.splitlines() if explanation.example is not None else []
        for line in rest:
            whole = len(line) <= 60 or " " not in line.strip(" -") or " <" in line
            assert whole or line[2:] in shown or line.startswith("Example"), line


def test_examples_are_at_their_positions() -> None:
    found = [
        (pod_field.text, one)
        for pod_field in PLACES
        if (one := facts.example(pod_field)) is not None
    ]
    assert found
    for path, one in found:
        first = one.text.splitlines()[0]
        line = (ROOT / one.file).read_text().splitlines()[one.line - 1]
        assert line.strip() == first, path
        names = {path.rpartition(".")[2], *(["containers"] if path in facts.LIKE_PLAIN else [])}
        assert any(f"{name}:" in first for name in names), path


def test_explain_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod.spec.containers.livenessProbe.httpGet"]) == 0
    out = capsys.readouterr().out
    assert "spec.containers.livenessProbe.httpGet <Object>" in out
    assert "Supported" in out
    assert "may not specify more than 1 handler type" in out
    assert "port <IntOrString> required" in out
    assert main(["explain", "spec.dnsConfig", "--recursive"]) == 0
    assert "  options <[]Object>\n    name <string>" in capsys.readouterr().out
    assert main(["explain", "spec.hostNetwork", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["support"] == "honoured"
    assert main(["explain", "spec.contaners"]) == 2
    assert "did you mean spec.containers?" in capsys.readouterr().err


def test_recursive_names_all() -> None:
    pod_field = find_pod_field("spec.containers.env")
    data = tree_data(pod_field)
    assert data["valueFrom"]["fieldRef"] == {"apiVersion": "string", "fieldPath": "string"}
    assert len(render_tree(find_pod_field("")).splitlines()) > 1000


def test_the_descriptions_file_is_valid() -> None:
    assert tomllib.loads((ROOT / "podtui" / "explain" / "texts.toml").read_text())


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("deployment.spec.strategy", "deployment.spec.strategy"),
        ("Deployments.spec.replicas", "deployment.spec.replicas"),
        ("ingresses.spec.rules[0].host", "ingress.spec.rules.host"),
        ("networkpolicies", "networkpolicy"),
        ("storageclass.parameters.anything", "storageclass.parameters"),
        ("secret", "spec.volumes.secret"),
        ("Secret", "secret"),
        ("secrets.data", "secret.data"),
        ("spec.hostNetwork", "spec.hostNetwork"),
    ],
)
def test_a_field_of_another_kind_is_found_by_the_kind(typed: str, text: str) -> None:
    assert find_field(typed).text == text


def test_an_unknown_field_of_another_kind_has_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"did you mean cronjob\.spec\.schedule\?"):
        find_field("cronjob.spec.schedul")
    with pytest.raises(UsageError, match="it has minReadySeconds"):
        find_field("deployment.spec.zzz")


def test_every_field_of_every_served_kind_can_be_explained() -> None:
    for name in paths_of_kinds(""):
        paths = paths_of_kinds(f"{name}.")
        assert f"{name}.metadata" in paths
        for path in paths:
            explanation = explain_pod_field(find_field(path))
            assert (explanation.path, bool(explanation.type)) == (path, True)


def test_a_field_in_a_pod_template_has_the_facts_of_the_pods_field() -> None:
    explanation = explain_pod_field(find_field("deployment.spec.template.spec.containers.image"))
    assert "must be set" in explanation.rules


def test_kinds_and_their_fields_are_completed() -> None:
    assert "deployment" in paths_of_kinds("dep")
    assert "deploy.spec" not in paths_of_kinds("deploy.")
    assert "deployment.spec.replicas" in paths_of_kinds("deployment.spec.re")
    assert paths_of_kinds("spec.") == []
