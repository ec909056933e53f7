"""References that a static pod may not have, in the kubelet's order and with its messages."""

from __future__ import annotations

from typing import Any

import pytest
from manifests import NODE, pod_text
from validation_cases import Edits, built, container, main_container, volume

from podtui.api.local import Diagnostic, Severity
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.validation import FieldError, validate_static

V = "spec.volumes[0]"


def read(text: str, *, strict: bool) -> list[Diagnostic]:
    """Return the errors of an invalid manifest."""
    result = read_manifest("/m/web.yaml", text.encode(), node_name=NODE, strict=strict)
    assert not result.pods
    return [found for found in result.diagnostics if found.severity is Severity.ERROR]


def source(**kinds: Any) -> Edits:
    return {"spec.volumes": [volume(**kinds)]}


def env(**kinds: Any) -> Edits:
    return main_container(env=[{"name": "A", "valueFrom": kinds}])


def projected(**kinds: Any) -> Edits:
    return source(projected={"sources": [kinds]})


SECRET_REF = {"secretRef": {"name": "s"}}
E0 = "spec.containers[0].env[0].valueFrom"
P0 = f"{V}.projected.sources[0]"


@pytest.mark.parametrize(
    ("edits", "path", "what"),
    [
        ({"spec.serviceAccountName": "a"}, "spec.serviceAccountName", "serviceaccounts"),
        ({"spec.serviceAccount": "a"}, "spec.serviceAccount", "serviceaccounts"),
        ({"spec.imagePullSecrets": [{"name": "s"}]}, "spec.imagePullSecrets[0].name", "secrets"),
        (
            main_container(envFrom=[SECRET_REF]),
            "spec.containers[0].envFrom[0].secretRef.name",
            "secrets",
        ),
        (env(secretKeyRef={"name": "s", "key": "k"}), f"{E0}.secretKeyRef.name", "secrets"),
        (
            {"spec.initContainers": [container("i", envFrom=[SECRET_REF])]},
            "spec.initContainers[0].envFrom[0].secretRef.name",
            "secrets",
        ),
        (source(secret={"secretName": "s"}), f"{V}.secret.secretName", "secrets"),
        (source(secret={}), f"{V}.secret", "secrets (via secret volumes)"),
        (
            source(azureFile={"secretName": "s", "shareName": "x"}),
            f"{V}.azureFile.secretName",
            "secrets",
        ),
        (
            source(azureFile={"secretName": "", "shareName": "x"}),
            f"{V}.azureFile",
            "secrets (via azureFile volumes)",
        ),
        (
            source(rbd={"monitors": ["m"], "image": "i", **SECRET_REF}),
            f"{V}.rbd.secretRef.name",
            "secrets",
        ),
        (
            source(iscsi={"targetPortal": "p", "iqn": "i", "lun": 0, **SECRET_REF}),
            f"{V}.iscsi.secretRef.name",
            "secrets",
        ),
        (projected(secret={"name": "s"}), f"{P0}.secret.name", "secrets"),
        (projected(secret={}), f"{P0}.secret", "secrets (via projected volumes)"),
        (
            main_container(envFrom=[{"configMapRef": {"name": "c"}}]),
            "spec.containers[0].envFrom[0].configMapRef.name",
            "configmaps",
        ),
        (
            env(configMapKeyRef={"name": "c", "key": "k"}),
            f"{E0}.configMapKeyRef.name",
            "configmaps",
        ),
        (source(configMap={"name": "c"}), f"{V}.configMap.name", "configmaps"),
        (source(configMap={}), f"{V}.configMap", "configmaps (via configmap volumes)"),
        (projected(configMap={"name": "c"}), f"{P0}.configMap.name", "configmaps"),
        (projected(configMap={}), f"{P0}.configMap", "configmaps (via projected volumes)"),
        ({"spec.resourceClaims": [{"name": "r"}]}, "spec.resourceClaims", "resourceclaims"),
        (source(csi={"driver": "d"}), f"{V}.csi", "csidrivers (via CSI volumes)"),
        (
            source(glusterfs={"endpoints": "e", "path": "p"}),
            f"{V}.glusterfs",
            "endpoints (via glusterFS volumes)",
        ),
        (
            source(persistentVolumeClaim={"claimName": "c"}),
            f"{V}.persistentVolumeClaim",
            "persistentvolumeclaims",
        ),
        (
            source(ephemeral={}),
            f"{V}.ephemeral",
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        (
            projected(serviceAccountToken={"path": "t"}),
            f"{P0}.serviceAccountToken",
            "serviceaccounts (via projected volumes)",
        ),
        (
            projected(clusterTrustBundle={"path": "c"}),
            f"{P0}.clusterTrustBundle",
            "clustertrustbundles",
        ),
        (
            projected(podCertificate={"keyType": "", "signerName": ""}),
            f"{P0}.podCertificate",
            "podcertificates",
        ),
    ],
)
def test_refused(edits: Edits, path: str, what: str) -> None:
    message = f"static pods may not reference {what}"
    assert validate_static(built(edits)) == [
        FieldError(path, "FieldValueForbidden", message, value=what)
    ]


@pytest.mark.parametrize(
    "edits",
    [
        {},
        source(emptyDir={}),
        source(hostPath={"path": "/x"}),
        source(nfs={"server": "s", "path": "/x"}),
        source(image={"reference": "a:1"}),
        source(iscsi={"targetPortal": "p", "iqn": "i", "lun": 0}),
        source(downwardAPI={"items": []}),
        projected(downwardAPI={"items": []}),
        env(fieldRef={"fieldPath": "metadata.name"}),
        {"spec.imagePullSecrets": [{}]},
    ],
)
def test_accepted(edits: Edits) -> None:
    assert validate_static(built(edits)) == []


def test_errors_are_in_the_kubelets_order() -> None:
    pod = built(
        {
            **source(csi={"driver": "d", "nodePublishSecretRef": {"name": "s"}}),
            **main_container(envFrom=[{"configMapRef": {"name": "c"}}]),
            "spec.resourceClaims": [{"name": "r"}],
            "spec.serviceAccountName": "a",
        }
    )
    assert [error.value for error in validate_static(pod)] == [
        "serviceaccounts",
        "secrets",
        "configmaps",
        "resourceclaims",
        "csidrivers (via CSI volumes)",
    ]


@pytest.mark.parametrize("strict", [False, True])
def test_device_claims_are_refused(strict: bool) -> None:
    claims = "  resourceClaims: [{name: gpu, resourceClaimName: g}]\n"
    use = "    resources: {claims: [{name: gpu}]}\n"
    (found,) = read(pod_text(extra=use + claims), strict=strict)
    assert found.field == "spec.resourceClaims"
    assert found.message == "Forbidden: static pods may not reference resourceclaims"
    (found,) = read(pod_text(extra=use), strict=strict)
    assert found.field == "spec.containers[0].resources.claims[0].name"
    kubelet = 'Not found: "gpu": must be one of the names'
    plain = 'there is no resource claim "gpu"; the Pod has none'
    assert found.message.startswith(kubelet if strict else plain)


@pytest.mark.parametrize("strict", [False, True])
def test_scheduling_gates_are_refused(strict: bool) -> None:
    gates = "  schedulingGates: [{name: example.com/wait}]\n"
    (found,) = read(pod_text(extra=gates), strict=strict)
    assert (found.field, found.line, found.column) == ("spec.schedulingGates", 9, 3)
    why = "cannot be set until all schedulingGates have been cleared"
    assert found.message == f"Forbidden: {why}"


@pytest.mark.parametrize("strict", [False, True])
def test_ephemeral_containers_are_refused_in_a_manifest(strict: bool) -> None:
    debug = "  ephemeralContainers: [{name: debug, image: busybox}]\n"
    (found,) = read(pod_text(extra=debug), strict=strict)
    assert (found.field, found.line, found.column) == ("spec.ephemeralContainers", 9, 3)
    assert found.message == "Forbidden: cannot be set on create"


@pytest.mark.parametrize("strict", [False, True])
def test_a_projected_source_without_a_type_is_refused(strict: bool) -> None:
    (found,) = read(
        pod_text(extra="  volumes: [{name: v, projected: {sources: [{}]}}]\n"), strict=strict
    )
    assert found.message == 'Forbidden: unknown source for projected volume "v"'
    assert (found.line, found.column) == (9, 45)
