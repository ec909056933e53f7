"""Positions of errors in workloads, and their defaults. The texts of the errors are compared with
those of a real API server in ``tests/unit/server/resources/recorded_workloads.jsonl``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.v1 import ReplicationController, Struct
from podtui.manifest import workload_defaults as defaults
from podtui.manifest.validation import workloads
from podtui.manifest.validation.errors import Errors, FieldError

LABELS = {"app": "web"}
CONTAINER = {"name": "c", "image": "busybox:1"}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
Kind = tuple[type[Struct], Callable[[Any], None], Callable[[Any], Errors]]
KINDS: dict[str, Kind] = {
    "Deployment": (
        Deployment,
        defaults.deployment_defaults,
        workloads.validate_deployment,
    ),
    "ReplicaSet": (ReplicaSet, defaults.replica_set_defaults, workloads.validate_replica_set),
    "StatefulSet": (StatefulSet, defaults.stateful_set_defaults, workloads.validate_stateful_set),
    "DaemonSet": (DaemonSet, defaults.daemon_set_defaults, workloads.validate_daemon_set),
    "ReplicationController": (
        ReplicationController,
        defaults.replication_controller_defaults,
        workloads.validate_replication_controller,
    ),
}


def errors(
    kind: str,
    template: dict[str, Any] | None = None,
    labels: dict[str, str] = LABELS,
    **spec: Any,
) -> list[FieldError]:
    """Return the errors of an object; ``template`` replaces fields of the pods' spec, and
    ``labels`` are those of the pods."""
    struct, complete, validate = KINDS[kind]
    pod = {"containers": [CONTAINER], **(template or {})}
    tree = {
        "metadata": {"name": "web", "namespace": "default", "labels": LABELS},
        "spec": {
            "selector": LABELS if kind == "ReplicationController" else {"matchLabels": LABELS},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }
    tree = copy.deepcopy(tree)
    complete(tree)
    return list(validate(msgspec.convert(tree, struct)))


def places(found: list[FieldError]) -> list[tuple[str, str]]:
    return [(error.path, error.location) for error in found]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_in_a_template_have_the_path_in_the_object(kind: str) -> None:
    assert errors(kind) == []
    template = {
        "containers": [{"name": "c", "image": ""}],
        "restartPolicy": "Never",
        "volumes": [{"name": "v", "hostPath": {"path": ".."}}],
    }
    volume = "spec.template.spec.volumes[0].hostPath.path"
    image = "spec.template.spec.containers[0].image"
    policy = "spec.template.spec.restartPolicy"
    assert places(errors(kind, template)) == [(path, path) for path in (volume, image, policy)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_api_servers_path_of_template_labels_lacks_the_metadata(kind: str) -> None:
    place = ("spec.template.labels", "spec.template.metadata.labels[a b]")
    assert set(places(errors(kind, labels={**LABELS, "a b": "c"}))) == {place}


def test_an_unknown_strategy_is_reported_at_its_type() -> None:
    assert places(errors("Deployment", strategy={"type": "Blue"})) == [
        ("spec.strategy", "spec.strategy.type")
    ]
    for kind in ("DaemonSet", "StatefulSet"):
        assert places(errors(kind, updateStrategy={"type": "Blue"})) == [
            ("spec.updateStrategy", "spec.updateStrategy.type")
        ]


def test_a_percentage_may_have_any_number_of_digits() -> None:
    strategy = {"rollingUpdate": {"maxUnavailable": "9" * 5000 + "%", "maxSurge": "007%"}}
    [error] = errors("Deployment", strategy=strategy)
    assert (error.path, error.detail) == (
        "spec.strategy.rollingUpdate.maxUnavailable",
        "must not be greater than 100%",
    )


def test_volumes_are_counted_after_those_of_claim_templates() -> None:
    """An error is still reported where the volume is written."""
    template = {
        "volumes": [{"name": "V", "emptyDir": {}}, {"name": "data", "emptyDir": {}}],
        "containers": [{**CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    }
    assert places(errors("StatefulSet", template, volumeClaimTemplates=[CLAIM])) == [
        ("spec.template.spec.volumes[1].name", "spec.template.spec.volumes[0].name")
    ]
    claim = {**CLAIM, "metadata": {"name": "D"}}
    assert places(errors("StatefulSet", volumeClaimTemplates=[CLAIM, claim])) == [
        ("spec.template.spec.volumes[1].name", "spec.volumeClaimTemplates[1].metadata.name")
    ]


def test_the_pods_of_a_stateful_set_get_their_host_names_from_it() -> None:
    template = {"hostname": "Not_valid", "subdomain": "Not_valid"}
    assert errors("StatefulSet", template) == []
    assert [error.location for error in errors("Deployment", template)] == [
        "spec.template.spec.hostname",
        "spec.template.spec.subdomain",
    ]


def test_a_template_gets_fewer_defaults_than_a_pod() -> None:
    pod: dict[str, Any] = {
        "containers": [{**CONTAINER, "resources": {"limits": {"cpu": "1"}}}],
        "terminationGracePeriodSeconds": -1,
    }
    tree = {"spec": {"template": {"metadata": {"labels": LABELS}, "spec": pod}}}
    defaults.deployment_defaults(tree)
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Always", -1)
    assert "enableServiceLinks" not in pod
