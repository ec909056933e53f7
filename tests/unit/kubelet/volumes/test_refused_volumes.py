"""Volumes and variables that a static pod may not have: each is refused with its reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from podtui.manifest.diagnose import read_manifest

CONTAINER = {"name": "c", "image": "busybox:1"}
SIGNED = {"signerName": "example.com/s", "path": "p"}
CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "k"}
BY_DRIVER = {
    "azureFile": ({"secretName": "s", "shareName": "x"}, "secrets"),
    "csi": ({"driver": "d"}, "csidrivers (via CSI volumes)"),
    "ephemeral": (
        {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            }
        },
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    "glusterfs": ({"endpoints": "e", "path": "p"}, "endpoints (via glusterFS volumes)"),
    "persistentVolumeClaim": ({"claimName": "c"}, "persistentvolumeclaims"),
}
PROJECTED = {
    "serviceAccountToken": (
        {"path": "t"},
        "serviceaccounts",
    ),
    "clusterTrustBundle": (SIGNED, "clustertrustbundles"),
    "podCertificate": (CERTIFICATE, "podcertificates"),
}


def problems(*, strict: bool = False, container: object = None, **spec: Any) -> list[str]:
    """Return the errors of a manifest."""
    whole = {**CONTAINER, **(container or {})}  # type: ignore[dict-item]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {**spec, "containers": [whole]},
    }
    content = msgspec.json.encode(document)
    result = read_manifest("/m/web.json", content, node_name="n1", strict=strict)
    assert not result.pods
    return [one.message for one in result.diagnostics]


def refused(what: str) -> str:
    return f"static pods may not reference {what}"


def mounting(source: dict[str, Any]) -> dict[str, Any]:
    return {
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "volumes": [{"name": "v", **source}],
    }


@pytest.mark.parametrize(
    "kind",
    list(BY_DRIVER),
)
def test_volumes_that_require_an_api_server(kind):
    source, what = BY_DRIVER[kind]
    found = problems(strict=kind == "persistentVolumeClaim", **mounting({kind: source}))
    assert any(refused(what) in one for one in found)


@pytest.mark.parametrize(
    "kind",
    list(PROJECTED),
)
def test_projected_sources_that_require_an_api_server(kind):
    source, what = PROJECTED[kind]
    spec = mounting({"projected": {"sources": [{kind: source}]}})
    is_token = kind == "serviceAccountToken"
    account = {"serviceAccountName": "a"} if is_token else {}
    # The agent is an API server for tokens.
    assert any(refused(what) in one for one in problems(strict=is_token, **spec, **account))


def test_block_devices_require_claims():
    device = {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    found = problems(strict=True, container=device, volumes=claim)
    assert any(refused("persistentvolumeclaims") in one for one in found)
    found = problems(container=device, volumes=[{"name": "v", "emptyDir": {}}])
    assert any("PersistentVolumeClaim or Ephemeral for block mode" in one for one in found)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (mounting({"secret": {"secretName": "s"}}), "secrets"),
        (mounting({"configMap": {"name": "m"}}), "configmaps"),
        ({"container": {"envFrom": [{"configMapRef": {"name": "m"}}]}}, "configmaps"),
        ({"container": {"envFrom": [{"secretRef": {"name": "s"}}]}}, "secrets"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
    ],
)
def test_missing_documents_and_those_refused_under_strict(spec, what, strict):
    assert any(refused(what) in one for one in problems(strict=strict, **spec))


def test_bidirectional_propagation_requires_privileged():
    spec = mounting({"hostPath": {"path": "/h"}})
    spec["container"]["volumeMounts"][0]["mountPropagation"] = "Bidirectional"
    (found,) = problems(**spec)
    words = "Bidirectional mount propagation is available only to privileged containers"
    assert words in found
