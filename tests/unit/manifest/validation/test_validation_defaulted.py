"""Rules that no manifest can violate, because decoding or defaulting comes first.

Pods from other sources can violate them; the rules must not misinterpret missing values.
"""

from __future__ import annotations

from typing import Any

import pytest
from validation_cases import GONE, Edits, built, main_container, volume

from podtui.api.names import CONFIG_MIRROR
from podtui.manifest.validation import validate_pod
from podtui.manifest.validation.errors import FORBIDDEN, INVALID, REQUIRED

C0 = "spec.containers[0]"
V0 = "spec.volumes[0]"
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "big"}}}


def env(**source: Any) -> Edits:
    return main_container(env=[{"name": "A", "valueFrom": source}])


@pytest.mark.parametrize(
    ("edits", "path", "kind"),
    [
        ({"metadata.name": ""}, "metadata.name", REQUIRED),
        ({"metadata.namespace": ""}, "metadata.namespace", REQUIRED),
        ({"spec.restartPolicy": ""}, "spec.restartPolicy", REQUIRED),
        ({"spec.dnsPolicy": ""}, "spec.dnsPolicy", REQUIRED),
        (
            {"spec.terminationGracePeriodSeconds": GONE},
            "spec.terminationGracePeriodSeconds",
            REQUIRED,
        ),
        ({"spec.nodeName": "A_b"}, "spec.nodeName", INVALID),
        (
            {"spec.nodeName": "", "metadata.annotations": {CONFIG_MIRROR: "x"}},
            f"metadata.annotations[{CONFIG_MIRROR}]",
            INVALID,
        ),
        (main_container(imagePullPolicy=""), f"{C0}.imagePullPolicy", REQUIRED),
        (main_container(terminationMessagePolicy=""), f"{C0}.terminationMessagePolicy", REQUIRED),
        (main_container(ports=[{"containerPort": 80}]), f"{C0}.ports[0].protocol", REQUIRED),
        (
            main_container(livenessProbe={"httpGet": {"port": 80, "scheme": "HTTP"}, **PROBE}),
            f"{C0}.livenessProbe.httpGet.path",
            REQUIRED,
        ),
        (
            env(fieldRef={"fieldPath": "metadata.name"}),
            f"{C0}.env[0].valueFrom.fieldRef.apiVersion",
            REQUIRED,
        ),
        (
            env(resourceFieldRef={"resource": "limits.cpu", "divisor": "much"}),
            f"{C0}.env[0].valueFrom.resourceFieldRef.divisor",
            INVALID,
        ),
        (
            main_container(resources={"limits": {"cpu": "lots"}}),
            f"{C0}.resources.limits[cpu]",
            INVALID,
        ),
        ({"spec.volumes": [volume()]}, V0, REQUIRED),
        (
            {"spec.volumes": [volume(emptyDir={"sizeLimit": "big"})]},
            f"{V0}.emptyDir.sizeLimit",
            FORBIDDEN,
        ),
        (
            {"spec.volumes": [volume(ephemeral={"volumeClaimTemplate": {"spec": CLAIM}})]},
            f"{V0}.ephemeral.volumeClaimTemplate.spec.resources[storage]",
            INVALID,
        ),
    ],
)
def test_errors_after_defaulting(edits: Edits, path: str, kind: str) -> None:
    assert [(e.path, e.type) for e in validate_pod(built(edits))] == [(path, kind)]
