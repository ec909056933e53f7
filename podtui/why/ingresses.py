"""Diagnoses of Ingresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from podtui.api.health import Health
from podtui.api.names import INGRESS_CLASS, INGRESS_CONTROLLER
from podtui.api.networking import Ingress, IngressBackend, IngressClass
from podtui.api.places import Path
from podtui.api.v1 import Secret, Service
from podtui.text.nearest import closest
from podtui.why.documents import manifest_of, patch_command, placed
from podtui.why.endpoints import is_headless
from podtui.why.inventory import Inventory, object_name
from podtui.why.services import diagnose_service
from podtui.why.types import Diagnosis, Kind, Part
from podtui.why.workloads import as_desired, deleting, name_list

_DOCS: Final = "https://kubernetes.io/docs/concepts/services-networking/ingress/"
_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_OLD_CLASS: Final = "kubernetes.io/ingress.class"


@dataclass(frozen=True, slots=True)
class Route:
    """One backend of an Ingress: ``shown`` is the host and the path that lead to it, ``path`` the
    field of the backend, ``problem`` the reason why it does not work. ``near`` is the value that is
    probably meant, for the field at ``wrong``."""

    shown: str
    backend: IngressBackend
    path: Path
    service: Service | None = None
    problem: str = ""
    wrong: Path = ()
    near: str | int = ""


def routes_of(inventory: Inventory, item: Ingress) -> list[Route]:
    """Return the backends of an Ingress in the order of its rules."""
    return [_checked(inventory, item, *each) for each in _backends(item)]


def _backends(item: Ingress) -> Iterator[tuple[str, IngressBackend, Path]]:
    if item.spec.defaultBackend is not None:
        yield "everything else", item.spec.defaultBackend, ("spec", "defaultBackend")
    for number, rule in enumerate(item.spec.rules):
        for index, path in enumerate(rule.http.paths if rule.http is not None else ()):
            where: Path = ("spec", "rules", number, "http", "paths", index, "backend")
            yield f"{rule.host or '*'}{path.path or '/'}", path.backend, where


def _checked(
    inventory: Inventory, item: Ingress, shown: str, backend: IngressBackend, path: Path
) -> Route:
    wanted = backend.service
    if wanted is None:
        ref = backend.resource
        problem = f"its backend is the {ref.kind} {ref.name}, not a Service" if ref else ""
        return Route(shown, backend, path, problem=problem)
    namespace = item.metadata.namespace
    service = inventory.get(Service, namespace, wanted.name)
    if service is None:
        names = [each.metadata.name for each in inventory.list(Service, namespace)]
        near = closest(wanted.name, names)
        hint = f"; perhaps {near} is meant" if near else ""
        problem = f"there is no Service {wanted.name} in the namespace {namespace}{hint}"
        where = (*path, "service", "name")
        return Route(shown, backend, path, None, problem, where, near)
    ports = service.spec.ports
    port = wanted.port
    matches = any(
        (port.name and each.name == port.name) or (port.number and each.port == port.number)
        for each in ports
    )
    if matches or (not port.name and port.number is None):
        return Route(shown, backend, path, service)
    asked = port.name or str(port.number)
    served = ", ".join(f"{each.port} ({each.name})" if each.name else str(each.port)
                       for each in ports)  # fmt: skip
    near: str | int = ""
    if port.name:
        near = closest(port.name, [each.name for each in ports if each.name])
    meant = next((each.port for each in ports if each.targetPort == port.number), None)
    hint = ""
    if port.number is not None and meant is not None:
        near, hint = meant, f"; {asked} is the targetPort of {meant}"
    elif port.number is not None and len(ports) == 1:
        near = ports[0].port
    problem = f"the Service {wanted.name} has no port {asked}, but {served or 'none'}{hint}"
    field = "name" if port.name else "number"
    return Route(shown, backend, path, service, problem, (*path, "service", "port", field), near)


def diagnose_ingress(inventory: Inventory, item: Ingress) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    routes = routes_of(inventory, item)
    broken = [route for route in routes if route.problem]
    if broken and inventory.is_read(Service):
        return _broken(inventory, item, broken, every=len(broken) == len(routes))
    problem = _class_problem(inventory, item) or _secret_problem(inventory, item)
    if problem is not None:
        return problem
    parts = _service_parts(inventory, routes)
    if parts:
        fails = any(part.diagnosis.kind is Kind.FAILURE for part in parts)
        return Diagnosis(
            cause="BackendsNotReady",
            kind=Kind.FAILURE if fails else Kind.WAIT,
            health=Health.FAILING if fails else Health.NOT_READY,
            state="backends not ready",
            title=f"Not all of its Services have endpoints: {name_list([p.name for p in parts])}.",
            brief=f"{parts[0].name} has no endpoints",
            parts=parts,
            docs=_DOCS,
        )
    headless = [
        route.service.metadata.name
        for route in routes
        if route.service is not None and is_headless(route.service)
    ]
    sentence = f"Headless: {name_list(headless)}." if headless else ""
    if not item.status.loadBalancer.ingress and (foreign := _foreign_class(inventory, item)):
        return foreign
    if not item.status.loadBalancer.ingress:
        return Diagnosis(
            cause="IngressPending",
            kind=Kind.WAIT,
            health=Health.PENDING,
            state="no address",
            title="It waits for the address of its controller.",
            brief="no address yet",
            sentences=tuple(filter(None, (sentence,))),
            evidence=inventory.evidence(item),
            advice="If this persists, no controller serves its class"
            f" ({class_of(item) or 'the default one'}).",
            docs=_DOCS + "#ingress-class",
        )
    count = len(routes)
    shown = name_list([route.shown for route in routes])
    return as_desired(
        f"Its {count} routes have endpoints: {shown}." if count != 1 else
        f"Its route has endpoints: {shown}.",
        sentence,
        state="has backends",
    )  # fmt: skip


def class_of(item: Ingress) -> str:
    return item.spec.ingressClassName or item.metadata.annotations.get(_OLD_CLASS, "")


def _broken(inventory: Inventory, item: Ingress, broken: list[Route], *, every: bool) -> Diagnosis:
    first = broken[0]
    diagnosis = Diagnosis(
        cause="BackendMissing" if first.service is None else "BackendPortUnknown",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no backend" if every else "some routes without backend",
        title=f"{first.shown} leads nowhere: {first.problem}.",
        brief="no Service" if first.service is None else "unknown port of a Service",
        sentences=tuple(f"{route.shown}: {route.problem}." for route in broken[1:4]),
        docs=_DOCS,
    )
    wrong = first.wrong or first.path
    if not first.near:
        return placed(inventory, item, diagnosis, wrong)
    return placed(inventory, item, diagnosis, wrong, (f"Use {first.near}", wrong, first.near))


def _class_problem(inventory: Inventory, item: Ingress) -> Diagnosis | None:
    name = item.spec.ingressClassName
    if not name or not inventory.is_read(IngressClass):
        return None
    classes = [each.metadata.name for each in inventory.list(IngressClass)]
    if name in classes or item.status.loadBalancer.ingress:
        # podtui also serves classes that do not exist.
        return None
    near = closest(name, classes)
    there = f"There are {name_list(classes)}." if classes else "There is none."
    diagnosis = Diagnosis(
        cause="IngressClassMissing",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="class without controller",
        title=f"Its class {name} does not exist: no controller serves it.",
        brief="ingress class does not exist",
        sentences=(there,),
        advice="" if near else "Correct spec.ingressClassName, or remove it for the default class.",
        docs=_DOCS + "#ingress-class",
    )
    path = ("spec", "ingressClassName")
    # With one class, that one is meant.
    near = near or (classes[0] if len(classes) == 1 else "")
    if not near:
        return placed(inventory, item, diagnosis, path)
    diagnosis = placed(inventory, item, diagnosis, path, (f"Use the class {near}", path, near))
    if manifest_of(inventory, item) is not None:
        return diagnosis
    command = patch_command("ingress", item, {"spec": {"ingressClassName": near}})
    return replace(diagnosis, advice=f"If the class {near} is meant: {command}")


def _foreign_class(inventory: Inventory, item: Ingress) -> Diagnosis | None:
    """Explain an Ingress whose class belongs to a controller that does not run here."""
    ingress_class = inventory.get(IngressClass, "", item.spec.ingressClassName)
    controller = INGRESS_CONTROLLER if ingress_class is None else ingress_class.spec.controller
    if inventory.in_cluster or controller == INGRESS_CONTROLLER:
        return None
    name, ours = item.spec.ingressClassName, INGRESS_CLASS
    diagnosis = Diagnosis(
        cause="IngressClassForeign",
        kind=Kind.WAIT,
        health=Health.PENDING,
        state="class of another controller",
        title=f"Its class {name} belongs to the controller {controller}, which has to run.",
        brief=f"waits for {controller}",
        advice=f"Run that controller, or use the class {ours}.",
        docs=_DOCS + "#ingress-class",
    )
    path = ("spec", "ingressClassName")
    return placed(inventory, item, diagnosis, path, (f"Use the class {ours}", path, ours))


def _secret_problem(inventory: Inventory, item: Ingress) -> Diagnosis | None:
    wanted = [each.secretName for each in item.spec.tls if each.secretName]
    # The Secrets of a cluster are not read only to see whether one exists.
    if not wanted or inventory.in_cluster or not inventory.is_read(Secret):
        return None
    namespace = item.metadata.namespace
    secrets = {each.metadata.name: each for each in inventory.list(Secret, namespace)}
    for index, each in enumerate(item.spec.tls):
        name = each.secretName
        if not name:
            continue
        path: Path = ("spec", "tls", index, "secretName")
        hosts = name_list(each.hosts) if each.hosts else "its hosts"
        secret = secrets.get(name)
        lacks = [key for key in ("tls.crt", "tls.key") if secret and key not in secret.data]
        if secret is not None and not lacks:
            continue
        near = closest(name, secrets)
        hint = f" Perhaps {near} is meant." if near and secret is None else ""
        what = f"has no {' and no '.join(lacks)}" if secret is not None else "does not exist"
        diagnosis = Diagnosis(
            cause="TlsSecretMissing" if secret is None else "TlsSecretIncomplete",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="no certificate",
            title=f"The certificate of {hosts} is missing: the Secret {name} {what}.",
            brief=f"the Secret {name} {what}",
            sentences=tuple(filter(None, (hint.strip(),))),
            advice=f"kubectl create secret tls {name} -n {namespace} --cert=FILE --key=FILE"
            if secret is None
            else "Set both keys of the Secret; its type is kubernetes.io/tls.",
            docs=_DOCS + "#tls",
        )
        changes = ((f"Use the Secret {near}", path, near),) if near and secret is None else ()
        return placed(inventory, item, diagnosis, path, *changes)
    return None


def _service_parts(inventory: Inventory, routes: list[Route]) -> tuple[Part, ...]:
    """Return the diagnoses of the Services that have no endpoints, once each."""
    services = {
        route.service.metadata.name: route.service for route in routes if route.service is not None
    }
    parts = ((service, diagnose_service(inventory, service)) for service in services.values())
    return tuple(
        Part(object_name(service), diagnosis)
        for service, diagnosis in parts
        if diagnosis.kind is not Kind.NONE and diagnosis.cause != "SomePodsNotReady"
    )
