"""Defaults of the API (kubelet.md §1.5)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from manifests import NODE

from podtui.api.v1 import Pod
from podtui.manifest.diagnose import read_manifest


def pod(spec: str) -> Pod:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n"
    result = read_manifest("/m/web.yaml", text.encode(), node_name=NODE)
    assert result.pods, [d.message for d in result.diagnostics]
    return result.pods[0]


def container(fields: str) -> Any:
    return pod(f"{{containers: [{{name: c, image: 'i:1', {fields}}}]}}").spec.containers[0]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        # Docker's registry completes the name to library/…, which may have 255 letters.
        ("a" * 247, "Always"),
        ("a" * 248, "IfNotPresent"),
        ("a" * 254 + ":latest", "IfNotPresent"),
        ("r.example/" + "a" * 255, "Always"),
        ("r.example/" + "a" * 256, "IfNotPresent"),
        ("docker.io/" + "a" * 248, "IfNotPresent"),
        ("localhost/" + "a" * 255, "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/busybox:2", "IfNotPresent"),
        ("busybox@sha256:" + "a" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "a" * 64, "Always"),
        ("a:b c", "IfNotPresent"),
        ("Busybox", "IfNotPresent"),
        ("../busybox", "IfNotPresent"),
    ],
)
def test_the_default_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    only = pod(f"{{containers: [{{name: c, image: '{image}'}}]}}").spec.containers[0]
    assert only.imagePullPolicy == policy


def test_a_negative_grace_period_is_one_second() -> None:
    spec = pod("{terminationGracePeriodSeconds: -1, containers: [{name: c, image: i}]}").spec
    assert spec.terminationGracePeriodSeconds == 1


def test_pod_defaults() -> None:
    spec = pod("{containers: [{name: c, image: busybox}]}").spec
    assert (spec.restartPolicy, spec.dnsPolicy) == ("Always", "ClusterFirst")
    assert spec.schedulerName == "default-scheduler"
    assert (spec.terminationGracePeriodSeconds, spec.enableServiceLinks) == (30, True)
    assert spec.securityContext is not None
    only = spec.containers[0]
    assert only.imagePullPolicy == "Always"
    assert (only.terminationMessagePath, only.terminationMessagePolicy) == (
        "/dev/termination-log",
        "File",
    )


def test_explicit_values_are_kept() -> None:
    spec = pod(
        "{terminationGracePeriodSeconds: 0, enableServiceLinks: false, restartPolicy: Never,"
        " containers: [{name: c, image: busybox, imagePullPolicy: Never}]}"
    ).spec
    assert (spec.terminationGracePeriodSeconds, spec.enableServiceLinks) == (0, False)
    assert (spec.restartPolicy, spec.containers[0].imagePullPolicy) == ("Never", "Never")


def test_case_16_requests_come_from_limits() -> None:
    resources = container("resources: {limits: {cpu: 1000m, memory: 64Mi}, requests: {cpu: 0.25}}")
    assert resources.resources.requests == {"cpu": "250m", "memory": "64Mi"}
    assert resources.resources.limits == {"cpu": "1", "memory": "64Mi"}


def test_resource_amounts_are_rounded_up_to_thousandths() -> None:
    assert container("resources: {requests: {cpu: 0.0001}}").resources.requests == {"cpu": "1m"}


def test_probes_and_hooks() -> None:
    probed = container(
        "livenessProbe: {httpGet: {port: 80}, periodSeconds: 0},"
        " readinessProbe: {tcpSocket: {port: 80}, failureThreshold: 7},"
        " lifecycle: {preStop: {httpGet: {port: 80, path: /bye}}}"
    )
    live, ready = probed.livenessProbe, probed.readinessProbe
    assert (live.timeoutSeconds, live.periodSeconds) == (1, 10)
    assert (live.successThreshold, live.failureThreshold) == (1, 3)
    assert (live.httpGet.path, live.httpGet.scheme) == ("/", "HTTP")
    assert (ready.failureThreshold, ready.httpGet) == (7, None)
    assert probed.lifecycle.preStop.httpGet.path == "/bye"
    assert probed.lifecycle.preStop.httpGet.scheme == "HTTP"


def test_ports_and_host_network() -> None:
    assert container("ports: [{containerPort: 80}]").ports[0].protocol == "TCP"
    spec = pod(
        "{hostNetwork: true, initContainers: [{name: i, image: i, ports: [{containerPort: 1}]}],"
        " containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}"
    ).spec
    assert spec.containers[0].ports[0].hostPort == 80
    assert spec.initContainers[0].ports[0].hostPort == 1


def test_env_and_volumes() -> None:
    spec = pod(
        yaml.safe_dump(
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "env": [
                            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                            {
                                "name": "B",
                                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}},
                            },
                        ],
                    }
                ],
                "volumes": [
                    {"name": "nothing"},
                    {"name": "host", "hostPath": {"path": "/x"}},
                    {
                        "name": "down",
                        "downwardAPI": {
                            "items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]
                        },
                    },
                ],
            },
            default_flow_style=True,
            width=10_000,
        ).strip()
    ).spec
    field, resource = (v.valueFrom for v in spec.containers[0].env)
    assert field is not None
    assert field.fieldRef is not None
    assert field.fieldRef.apiVersion == "v1"
    assert resource is not None
    assert resource.resourceFieldRef is not None
    assert resource.resourceFieldRef.divisor == "0"
    nothing, host, down = spec.volumes
    assert nothing.emptyDir is not None
    assert host.hostPath is not None
    assert host.hostPath.type == ""
    assert down.downwardAPI is not None
    assert down.downwardAPI.defaultMode == 0o644
    assert down.downwardAPI.items[0].fieldRef is not None
    assert down.downwardAPI.items[0].fieldRef.apiVersion == "v1"


def test_pod_level_requests_from_its_limits_and_its_containers() -> None:
    spec = pod(
        "{resources: {limits: {cpu: 2, memory: 1Gi}},"
        " initContainers: [{name: i, image: i, resources: {requests: {cpu: 1500m}}},"
        " {name: s, image: i, restartPolicy: Always, resources: {requests: {cpu: 100m}}}],"
        " containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}"
    ).spec
    assert spec.resources is not None
    assert spec.resources.requests == {"cpu": "1500m", "memory": "1Gi"}


def test_pod_level_limits_have_no_default() -> None:
    spec = pod(
        "{resources: {requests: {cpu: 1500m}}, containers: ["
        "{name: a, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}},"
        "{name: b, image: i, resources: {limits: {cpu: 500m}}}]}"
    ).spec
    assert spec.resources is not None
    assert spec.resources.limits == {}
