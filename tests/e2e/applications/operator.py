"""A kopf operator: each ConfigMap with the label ``site`` gets a Deployment with its page."""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes

IMAGE = "busybox:1.36"


@kopf.on.startup()
def connect(**_: Any) -> None:
    kubernetes.config.load_config()


@kopf.on.create("v1", "configmaps", labels={"site": kopf.PRESENT})
def create(name: str, namespace: str, body: Any, **_: Any) -> None:
    labels = {"app": name}
    container = {
        "name": "web",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "cat /www/index.html; echo; exec httpd -f -p 8080 -h /www"],
        "volumeMounts": [{"name": "www", "mountPath": "/www"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "www", "configMap": {"name": name}}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    kopf.adopt(deployment, owner=body)
    kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, deployment)


@kopf.on.update("v1", "configmaps", labels={"site": kopf.PRESENT}, field="data.replicas")
def scale(name: str, namespace: str, new: str | None, **_: Any) -> None:
    patch = {"spec": {"replicas": int(new or 1)}}
    kubernetes.client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, patch)


@kopf.on.delete("v1", "configmaps", labels={"site": kopf.PRESENT})
def note(name: str, namespace: str, **_: Any) -> None:
    """The finalizer of this handler keeps the ConfigMap until the operator has seen its end."""
    body = {"metadata": {"name": f"{name}-was-here"}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
