"""Services, endpoints and namespaces as a zone reads them, and answers as lines of text."""

from __future__ import annotations

from typing import Any

from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.objects import Object
from podtui.api.v1 import Namespace, ObjectMeta, Service, ServicePort, ServiceSpec
from podtui.client.cache import Cache
from podtui.services.index import ServiceIndex
from podtui.services.name_index import NameIndex
from podtui.services.zone import Answer, Record, Zone, name_of

DOMAIN = "cluster.local"
SOA = "cluster.local SOA"


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


def port(number: int, name: str = "", protocol: str = "TCP") -> ServicePort:
    return ServicePort(port=number, name=name, protocol=protocol)


def service(name: str = "web", namespace: str = "default", **spec: Any) -> Service:
    values = {"clusterIP": "10.96.0.7", "ports": (port(80, "http"),), **spec}
    meta = ObjectMeta(name=name, namespace=namespace)
    return Service(metadata=meta, spec=ServiceSpec(**values))


def endpoint(*ips: str, hostname: str = "", **conditions: bool) -> Endpoint:
    values = EndpointConditions(**conditions)
    return Endpoint(addresses=ips, hostname=hostname, conditions=values)


def endpoint_slice(
    service: str,
    *endpoints: Endpoint,
    namespace: str = "default",
    ports: tuple[EndpointPort, ...] = (EndpointPort(name="http", port=8080, protocol="TCP"),),
    family: str = "IPv4",
    name: str = "",
    version: int = 0,
) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name or f"{service}-{family.lower()}",
            namespace=namespace,
            labels={"kubernetes.io/service-name": service},
            resourceVersion=str(version) if version else "",
        ),
        addressType=family,
        endpoints=endpoints,
        ports=ports,
    )


class DnsWorld:
    def __init__(self, *objects: Object) -> None:
        self.cache = Cache()
        self.index = NameIndex(self.cache, ServiceIndex(self.cache))
        self.put(namespace("default"), namespace("kube-system"), *objects)
        self.zone = Zone(self.index, DOMAIN)

    def put(self, *objects: Object) -> None:
        for item in objects:
            self.cache.put(item)

    def set_listed(self) -> None:
        for kind in (Namespace, Service, EndpointSlice):
            self.cache.replace(kind, self.cache.list(kind))

    def ask(self, name: str, kind: str = "A") -> list[str]:
        """Return the answer: the code unless it is NOERROR, then the records."""
        answer = self.zone.answer(name_of(name), kind)
        return ["elsewhere"] if answer is None else lines(answer)


def lines(answer: Answer) -> list[str]:
    result = [] if answer.code == "NOERROR" else [answer.code]
    result += [text_of(record) for record in answer.records]
    if answer.external:
        result.append("external " + ".".join(answer.external))
    result += [f"+ {text_of(record)}" for record in answer.additional]
    return result + [text_of(record) for record in answer.authority]


def text_of(record: Record) -> str:
    values: list[str] = [".".join(record.owner), record.type]
    if record.type == "SRV":
        values += [str(record.weight), str(record.port)]
    values += filter(None, [record.address, ".".join(record.target), record.text])
    return " ".join(values)
