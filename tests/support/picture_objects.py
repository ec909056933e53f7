"""Objects of other kinds than pods, for pictures."""

from __future__ import annotations

import base64
from typing import Any

from msgspec import structs
from tui_scene import ago

from podtui.api.v1 import Event, EventSource, ObjectMeta, ObjectReference, OwnerReference, Pod
from podtui.client.any_kind import AnyObject, ServedKind, TableColumn, TableRow

VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})
DEPLOYMENTS = ServedKind(
    api_version="apps/v1", kind="Deployment", plural="deployments", singular="deployment",
    short_names=("deploy",), verbs=VERBS, subresources=frozenset({"scale", "status"}),
)  # fmt: skip
REPLICA_SETS = ServedKind(
    api_version="apps/v1", kind="ReplicaSet", plural="replicasets", singular="replicaset",
    short_names=("rs",), verbs=VERBS,
)  # fmt: skip
SECRETS = ServedKind(
    api_version="v1", kind="Secret", plural="secrets", singular="secret", verbs=VERBS
)
_DEPLOYMENT_COLUMNS = tuple(
    TableColumn(name, "string", priority)
    for name, priority in (
        ("Name", 0), ("Ready", 0), ("Up-to-date", 0), ("Available", 0), ("Age", 0),
        ("Containers", 1), ("Images", 1), ("Selector", 1),
    )
)  # fmt: skip
_SECRET_COLUMNS = tuple(TableColumn(name) for name in ("Name", "Type", "Data", "Age"))


def _meta(name: str, **more: Any) -> ObjectMeta:
    more.setdefault("namespace", "default")
    return ObjectMeta(name=name, uid=f"uid-of-{name}", creationTimestamp=ago(hours=5), **more)


def _object(kind: ServedKind, meta: ObjectMeta, **parts: Any) -> AnyObject:
    content = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "generation": 2}
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": content}
    return AnyObject(meta, head | parts)


def _template(image: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "nginx", "image": image}]},
    }


def _replica_set(number: int, image: str, cause: str) -> AnyObject:
    owner = OwnerReference(apiVersion="apps/v1", kind="Deployment", name="web",
                           uid="uid-of-web", controller=True)  # fmt: skip
    annotations = {"deployment.kubernetes.io/revision": str(number)}
    if cause:
        annotations["kubernetes.io/change-cause"] = cause
    meta = _meta(f"web-{number}", annotations=annotations, ownerReferences=(owner,))
    template = _template(image)
    template["metadata"]["labels"]["pod-template-hash"] = str(number)
    return _object(REPLICA_SETS, meta, spec={"template": template})


def secret_content(value: bytes) -> dict[str, Any]:
    data = {"password": base64.b64encode(value).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": data}


def owned(pod: Pod) -> Pod:
    """Return a pod as one of the current revision of the Deployment."""
    owner = OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web-2",
                           uid="uid-of-web-2", controller=True)  # fmt: skip
    labels = {**pod.metadata.labels, "pod-template-hash": "2"}
    meta = structs.replace(pod.metadata, ownerReferences=(owner,), labels=labels)
    return structs.replace(pod, metadata=meta)


def rollout_event() -> Event:
    return Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(
            kind="Deployment", name="web", namespace="default", uid="uid-of-web"
        ),
        reason="ScalingReplicaSet",
        message="Scaled up replica set web-2 from 0 to 2",
        type="Normal",
        count=1,
        firstTimestamp=ago(minutes=4),
        lastTimestamp=ago(minutes=4),
        source=EventSource(component="deployment-controller"),
    )


def served() -> dict[ServedKind, tuple[tuple[TableRow, ...], tuple[AnyObject, ...]]]:
    """Return the rows and the objects of each kind."""
    web = _meta("web", annotations={"deployment.kubernetes.io/revision": "2"})
    spec = {"replicas": 2, "template": _template("nginx:1.27"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate":
                         {"maxSurge": "25%", "maxUnavailable": "25%"}}}  # fmt: skip
    status = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    login = _object(SECRETS, _meta("login"), data=secret_content(b"open sesame")["data"])
    rows = (
        TableRow(web, ("web", "1/2", 2, 1, "5h", "nginx", "nginx:1.27", "app=web"),
                 _DEPLOYMENT_COLUMNS),
        TableRow(_meta("worker"), ("worker", "3/3", 3, 3, "5h", "job", "worker:2.1", "app=worker"),
                 _DEPLOYMENT_COLUMNS),
    )  # fmt: skip
    return {
        DEPLOYMENTS: (rows, (_object(DEPLOYMENTS, web, spec=spec, status=status),)),
        REPLICA_SETS: ((), (_replica_set(1, "nginx:1.26", "first version"),
                            _replica_set(2, "nginx:1.27", ""))),
        SECRETS: ((TableRow(login.metadata, ("login", "Opaque", 1, "5h"), _SECRET_COLUMNS),),
                  (login,)),
    }  # fmt: skip
