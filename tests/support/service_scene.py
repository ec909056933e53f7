"""A shop: Services, an Ingress and the workloads that name them, for the screens."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from picture_objects import VERBS
from tui_scene import FakeClient, node
from why_objects import crashing_pod, make, ready_pod

from podtui.api.urls import PUBLISHED
from podtui.client.any_kind import AnyObject, ServedKind, TableColumn, TableRow
from podtui.client.protocol import Synced
from podtui.tui.screens.map_screen import MAP_KINDS

SERVICES: Final = ServedKind(
    api_version="v1", kind="Service", plural="services", singular="service", short_names=("svc",),
    verbs=VERBS,
)  # fmt: skip
INGRESSES: Final = ServedKind(
    api_version="networking.k8s.io/v1", kind="Ingress", plural="ingresses", singular="ingress",
    short_names=("ing",), verbs=VERBS,
)  # fmt: skip
WEB: Final = {"app": "web"}
SPEC: Final = {
    "containers": [{"name": "c", "image": "web:1", "ports": [
        {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9102},
    ]}],
}  # fmt: skip
_COLUMNS: Final = tuple(
    TableColumn(name, "string")
    for name in ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age")
)


def shop_objects() -> dict[str, Any]:
    """Return the objects by name."""
    ports = [
        {"name": "http", "port": 80, "targetPort": "http", "nodePort": 30080, "protocol": "TCP"},
        {"name": "metrics", "port": 9102, "targetPort": 9102, "protocol": "TCP"},
    ]
    web = make(
        "Service", "web",
        meta={"annotations": {PUBLISHED: "127.0.0.1:30080/TCP"}},
        spec={"type": "NodePort", "selector": WEB, "ports": ports, "clusterIP": "10.96.41.7"},
    )  # fmt: skip
    db = make("Service", "db", spec={"selector": {"app": "db"}, "ports": [{"port": 5432}],
                                     "clusterIP": "None"})  # fmt: skip

    def endpoint(number: int, *, ready: bool) -> dict[str, Any]:
        ref = {"kind": "Pod", "name": f"web-{number}", "namespace": "default"}
        return {"addresses": [f"10.244.0.{number}"], "conditions": {"ready": ready},
                "targetRef": ref}  # fmt: skip

    web_slice = make(
        "EndpointSlice", "web-abc", labels={"kubernetes.io/service-name": "web"},
        addressType="IPv4", ports=[{"name": "http", "port": 8080}],
        endpoints=[endpoint(1, ready=True), endpoint(2, ready=False)],
    )  # fmt: skip
    spec = {"containers": [{"name": "front", "image": "shop:2", "env": [
        {"name": "API", "value": "http://web"},
        {"name": "DATABASE_URL", "value": "postgres://shop:secret@dbb:5432/shop"},
        {"name": "STORE_HOST", "value": "db"},
    ], "args": ["--metrics=http://web:9100"]}]}  # fmt: skip
    front = make("Deployment", "shop", spec={"template": {"metadata": {}, "spec": spec}})
    backend = {"service": {"name": "web", "port": {"name": "http"}}}
    gone = {"service": {"name": "cart", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend},
             {"path": "/cart", "pathType": "Prefix", "backend": gone}]  # fmt: skip
    address = {"ip": "127.0.0.1", "ports": [{"port": 8080, "protocol": "TCP"}]}
    ingress = make(
        "Ingress", "shop", spec={"rules": [{"host": "shop.example", "http": {"paths": paths}}]},
        status={"loadBalancer": {"ingress": [address]}},
    )  # fmt: skip
    return {"web": web, "db": db, "slice": web_slice, "front": front, "ingress": ingress}


def as_object(kind: ServedKind, item: Any) -> AnyObject:
    content = msgspec.to_builtins(item)
    return AnyObject(item.metadata, {**content, "apiVersion": kind.api_version, "kind": kind.kind})


def send_shop(client: FakeClient, change: Any = lambda item: item) -> dict[str, Any]:
    """Send the objects to the next screen that follows them, and return them by name."""
    items = {name: change(item) for name, item in shop_objects().items()}
    sent: dict[type[Any], list[Any]] = {kind: [] for kind in MAP_KINDS}
    for item in items.values():
        sent[type(item)].append(item)
    for kind, listed in sent.items():
        client.send(kind, Synced(tuple(listed)))
    return items


def with_services(change: Any = lambda item: item) -> FakeClient:
    """An agent with the shop; ``change`` is applied to each object."""
    client = FakeClient()
    pods = (ready_pod("web-1", labels=WEB, spec=SPEC), crashing_pod("web-2", labels=WEB, spec=SPEC))
    client.fill(tuple(map(change, pods)), (), (), (node(),))
    items = send_shop(client, change)
    web, ingress = items["web"], items["ingress"]
    row = TableRow(
        web.metadata, ("web", "NodePort", "10.96.41.7", "<none>", "80:30080/TCP,9102/TCP", "5h"),
        _COLUMNS,
    )  # fmt: skip
    ingress_row = TableRow(ingress.metadata, ("shop", "<none>", "shop.example"), _COLUMNS[:3])
    client.served = {
        SERVICES: ((row,), (as_object(SERVICES, web),)),
        INGRESSES: ((ingress_row,), (as_object(INGRESSES, ingress),)),
    }
    return client
