"""Conversions of former versions by ``check --fix``."""

from __future__ import annotations

import pytest
from manifests import NODE, pod_text, read

from podtui.manifest.fixes import fix_text
from podtui.manifest.kinds import FORMER_VERSIONS, KINDS

TEMPLATE = """  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: busybox}]
"""
INGRESS = """apiVersion: networking.k8s.io/v1beta1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - http:
      paths:
      - path: /
        backend:
          serviceName: web  # kept
          servicePort: 80
"""


def fixed(text: str) -> str:
    result = fix_text("/m/a.yaml", text.encode(), node_name=NODE, strict=False)
    return result.after.decode()


def test_a_deployment_gets_the_selector_of_its_labels() -> None:
    text = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
    after = fixed(text + "  replicas: 2\n" + TEMPLATE)
    assert after == (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n"
        "  selector:\n    matchLabels:\n      app: web\n" + TEMPLATE
    )
    assert not read(after).invalid


def test_the_selector_of_a_deployment_stays() -> None:
    text = "apiVersion: apps/v1beta2\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
    text += "  selector: {matchLabels: {app: web}}\n" + TEMPLATE
    assert fixed(text) == text.replace("apps/v1beta2", "apps/v1")


def test_an_ingress_gets_its_backends_and_path_types() -> None:
    after = fixed(INGRESS)
    assert "          service: {name: web, port: {number: 80}}  # kept\n" in after
    assert "        pathType: ImplementationSpecific\n" in after
    assert "servicePort" not in after
    assert not read(after).invalid


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            (
                "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: c}\nspec:\n"
                "  schedule: '* * * * *'\n  jobTemplate: {spec: {template: {spec: {"
                "restartPolicy: Never, containers: [{name: c, image: i}]}}}}\n"
            ),
            "batch/v1",
        ),
        (
            (
                "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: p}\n"
                "spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\n"
            ),
            "policy/v1",
        ),
        (
            (
                "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: r}\n"
                "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n"
            ),
            "rbac.authorization.k8s.io/v1",
        ),
    ],
)
def test_kinds_whose_fields_are_the_same(text: str, version: str) -> None:
    first, rest = text.split("\n", 1)
    assert fixed(text) == f"apiVersion: {version}\n{rest}"
    assert "today's version is " + version in read(text).diagnostics[0].message
    assert first not in fixed(text)


@pytest.mark.parametrize(
    "text",
    [
        # An empty selector selected nothing.
        (
            "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: p}\n"
            "spec: {minAvailable: 1, selector: {}}\n"
        ),
        # Its fields are others today.
        (
            "apiVersion: autoscaling/v2beta1\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
            "spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: web}}\n"
        ),
        # Nothing tells which labels it selects.
        (
            "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: web}\n"
            "spec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
        ),
    ],
)
def test_no_conversion_that_is_not_exact(text: str) -> None:
    assert fixed(text) == text
    assert read(text).diagnostics[0].code == "FormerVersion"


def test_other_documents_stay_as_they_are() -> None:
    text = pod_text() + "---\n" + INGRESS
    assert fixed(text).startswith(pod_text() + "---\napiVersion: networking.k8s.io/v1\n")


def test_former_versions_are_of_kinds_that_the_folder_holds() -> None:
    assert FORMER_VERSIONS.keys() <= KINDS.keys()
    assert all(KINDS[kind].api_version not in old for kind, old in FORMER_VERSIONS.items())


def test_the_target_of_an_autoscaler_gets_its_group() -> None:
    text = (
        "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec:\n  maxReplicas: 2\n  scaleTargetRef:\n    kind: Deployment\n    name: web\n"
    )
    expected = text.replace("v2beta2", "v2").replace(
        "kind: Deployment\n", "kind: Deployment\n    apiVersion: apps/v1\n"
    )
    assert fixed(text) == expected
    assert read(expected).diagnostics == ()
