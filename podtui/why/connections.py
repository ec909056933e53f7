"""Who connects to whom: the Services that the manifests of workloads name.

Only manifests are read: environment variables, arguments and commands, and the keys of ConfigMaps
that variables come from. A program may connect to more than that, or to less. Secrets are never
read, and of a value only host and port are returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podtui.api.apps import ReplicaSet
from podtui.api.batch import CronJob, Job
from podtui.api.insight import ConnectionCheck
from podtui.api.networking import Ingress
from podtui.api.places import Path, read_places
from podtui.api.v1 import ConfigMap, Container, Pod, PodSpec, Service
from podtui.editing.source import find_place
from podtui.text.nearest import closest
from podtui.why.connection_checks import accepts, check_text, fails
from podtui.why.documents import manifest_of, placed
from podtui.why.endpoints import endpoints_of, is_headless, read_host
from podtui.why.hosts import (
    Host,
    environment_prefix,
    environment_prefixes,
    hosts_of,
    is_address,
    option_hosts,
)
from podtui.why.ingresses import routes_of
from podtui.why.inventory import WORKLOADS, Inventory, object_name
from podtui.why.services import diagnose_service, refused_port
from podtui.why.types import Diagnosis, Part

_MAX_EXPANDED: Final = 4096


@dataclass(frozen=True, slots=True)
class Connection:
    """An object whose manifest names a Service. ``host`` and ``port`` are as written, ``port`` is 0
    if it is not. ``path`` is the field in the object, ``source`` the same for people. ``service``
    is the Service, or None if there is none of that ``name``. ``problem`` is the reason why the
    connection fails; ``near`` is the host that is probably meant. Not ``is_sure``: the value may
    mean something else."""

    item: Any
    container: str
    path: Path
    source: str
    host: str
    port: int
    namespace: str
    name: str
    service: Service | None
    problem: str = ""
    near: str = ""
    is_sure: bool = True


def connections(inventory: Inventory) -> list[Connection]:
    """Return the connections of all workloads and pods without an owner, and of Ingresses."""
    problems = _Problems(inventory)
    result: list[Connection] = []
    for kind in WORKLOADS:
        for item in inventory.list(kind):
            if inventory.owner(item) is None:
                path, spec = pod_spec_of(item)
                result += _of_spec(problems, item, item.metadata.namespace, path, spec)
    for pod in inventory.list(Pod):
        if not any(ref.controller for ref in pod.metadata.ownerReferences if ref.kind != "Node"):
            result += _of_spec(problems, pod, pod.metadata.namespace, ("spec",), pod.spec)
    for ingress in inventory.list(Ingress):
        result += _of_ingress(problems, ingress)
    return result


def connections_of_pod(inventory: Inventory, pod: Pod) -> list[Connection]:
    """Return the connections of one pod, with the fields of its own manifest."""
    problems = _Problems(inventory)
    return list(_of_spec(problems, pod, pod.metadata.namespace, ("spec",), pod.spec))


def pod_spec_of(item: Any) -> tuple[Path, PodSpec]:
    """Return the path and the pod spec of a workload."""
    if isinstance(item, CronJob):
        path: Path = ("spec", "jobTemplate", "spec", "template", "spec")
        return path, item.spec.jobTemplate.spec.template.spec
    template = item.spec.template
    # A ReplicationController may have none.
    spec = PodSpec(containers=()) if template is None else template.spec
    return ("spec", "template", "spec"), spec


class _Problems:
    """The problems of the Services of an inventory, computed once for each."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._endpoints: dict[tuple[str, str], str] = {}

    def of(self, service: Service, port: int) -> str:
        """Return why connections to a Service fail; empty if nothing is known."""
        key = (service.metadata.namespace, service.metadata.name)
        if key not in self._endpoints:
            self._endpoints[key] = self._endpoint_problem(service)
        return refused_port(service, port) or self._endpoints[key]

    def _endpoint_problem(self, service: Service) -> str:
        meta = service.metadata
        if service.spec.type == "ExternalName" or (
            (meta.namespace, meta.name) in (("default", "kubernetes"), ("kube-system", "kube-dns"))
        ):
            return ""
        endpoints = endpoints_of(self.inventory, service)
        if any(endpoint.is_ready for endpoint in endpoints):
            return ""
        if not endpoints:
            return "it has no endpoints"
        first = endpoints[0]
        name = f"{first.pod.metadata.name}: " if first.pod is not None else ""
        return f"it has no ready endpoints ({name}{first.problem})"


def _of_spec(
    problems: _Problems, item: Any, namespace: str, path: Path, spec: PodSpec
) -> Iterator[Connection]:
    own = {alias for entry in spec.hostAliases for alias in entry.hostnames} | {spec.hostname}
    if isinstance(item, Pod):
        own.add(item.metadata.name)
    for field, containers in (
        ("initContainers", spec.initContainers),
        ("containers", spec.containers),
    ):
        for index, container in enumerate(containers):
            where: Path = (*path, field, index)
            edges = [
                edge
                for host, at, source in _texts(problems.inventory, namespace, container, where)
                if host.name not in own
                and (edge := _connection(problems, item, namespace, container.name, host,
                                         at, source)) is not None
            ]  # fmt: skip
            yield from _merged(edges)


def _merged(edges: Iterable[Connection]) -> Iterator[Connection]:
    """Yield the connections of a container, each Service and port once; one without a port only if
    no other tells it."""
    unique: dict[tuple[str, str, int], Connection] = {}
    for edge in edges:
        key = (edge.namespace, edge.name, edge.port)
        if key not in unique or (edge.is_sure and not unique[key].is_sure):
            unique[key] = edge
    with_port = {(namespace, name) for namespace, name, port in unique if port}
    for (namespace, name, port), edge in unique.items():
        if port or (namespace, name) not in with_port:
            yield edge


def _texts(
    inventory: Inventory, namespace: str, container: Container, path: Path
) -> Iterator[tuple[Host, Path, str]]:
    """Yield the hosts that the fields of a container name, with the field."""
    values: dict[str, str] = {}
    hosts: list[tuple[str, Host, Path, str]] = []
    for number, source in enumerate(container.envFrom):
        ref = source.configMapRef
        item = inventory.get(ConfigMap, namespace, ref.name) if ref is not None else None
        if item is None:
            continue
        for key, text in item.data.items():
            name = f"{source.prefix}{key}"
            values[name] = text
            where: Path = (*path, "envFrom", number)
            shown = f"ConfigMap {item.metadata.name}, key {key}"
            hosts += (
                (name, host, where, shown) for host in _hosts(inventory, text, name, namespace)
            )
    for number, variable in enumerate(container.env):
        origin = variable.valueFrom
        where = (*path, "env", number, "value")
        if origin is None:
            text = _expanded(variable.value, values)
            shown = f"env {variable.name}"
        elif origin.configMapKeyRef is not None:
            ref = origin.configMapKeyRef
            item = inventory.get(ConfigMap, namespace, ref.name)
            text = item.data.get(ref.key, "") if item is not None else ""
            where = (*path, "env", number, "valueFrom")
            shown = f"env {variable.name} (ConfigMap {ref.name}, key {ref.key})"
        else:
            continue
        values[variable.name] = text
        hosts += (
            (variable.name, host, where, shown)
            for host in _hosts(inventory, text, variable.name, namespace)
        )
    for name, host, where, shown in hosts:
        yield _with_port(host, name, values), where, shown
    for field in ("command", "args"):
        before = ""
        for number, raw in enumerate(getattr(container, field)):
            text = _expanded(raw, values)
            in_argument = [*option_hosts(text), *_from_environment(inventory, raw, namespace)]
            if before.startswith("--") and "=" not in before:
                in_argument += hosts_of(text, before)
            for host in in_argument:
                yield host, (*path, field, number), field
            before = raw


def _with_port(host: Host, name: str, values: Mapping[str, str]) -> Host:
    """Add the port from the variable beside that of the host: ``DB_PORT`` beside ``DB_HOST``."""
    prefix, suffix, _ = name.rpartition("_HOST")
    port = values.get(f"{prefix}_PORT", "") if suffix else ""
    if host.port or not (port.isascii() and port.isdecimal() and len(port) < 6):
        return host
    return replace(host, port=int(port))


def _hosts(inventory: Inventory, text: str, name: str, namespace: str) -> list[Host]:
    return [*hosts_of(text, name), *_from_environment(inventory, text, namespace)]


def _from_environment(inventory: Inventory, text: str, namespace: str) -> list[Host]:
    """Return the Services whose variables (``DB_SERVICE_HOST``) a text uses."""
    prefixes = set(environment_prefixes(text))
    if not prefixes:
        return []
    return [
        Host(item.metadata.name, sure=True)
        for item in inventory.list(Service, namespace)
        if environment_prefix(item.metadata.name) in prefixes
    ]


def _expanded(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the values of variables that are known."""
    if "$(" not in text:
        return text
    for name, value in values.items():
        if len(text) > _MAX_EXPANDED:
            break
        text = text.replace(f"$({name})", value)
    return text


def _connection(
    problems: _Problems,
    item: Any,
    namespace: str,
    container: str,
    host: Host,
    path: Path,
    source: str,
) -> Connection | None:
    """Return the connection to a host; None if it is none of the cluster, or too weak a guess."""
    inventory = problems.inventory
    if is_address(host.name):
        service = _by_address(inventory, host.name)
        if service is None:
            return None
        meta = service.metadata
        return Connection(
            item, container, path, source, host.name, host.port, meta.namespace, meta.name,
            service, problems.of(service, host.port),
        )  # fmt: skip
    wanted = read_host(inventory, host.name, namespace)
    if wanted is None or inventory.scope not in ("", wanted.namespace):
        return None
    service = inventory.get(Service, wanted.namespace, wanted.name)
    if service is None:
        # A word that names no Service is a host only if its text says so.
        if not (host.sure or host.announced) or not inventory.is_read(Service):
            return None
        problem, near = _missing(inventory, wanted.name, wanted.namespace, namespace)
    else:
        problem, near = problems.of(service, host.port), ""
        if not problem and wanted.pod and is_headless(service):
            names = [each.hostname for each in endpoints_of(inventory, service) if each.hostname]
            if names and wanted.pod not in names:
                problem = f"it has no pod {wanted.pod}"
    return Connection(
        item, container, path, source, host.name, host.port, wanted.namespace, wanted.name,
        service, problem, near, host.sure,
    )  # fmt: skip


def _by_address(inventory: Inventory, address: str) -> Service | None:
    return next(
        (item for item in inventory.list(Service)
         if address in (item.spec.clusterIP, *item.spec.clusterIPs)), None
    )  # fmt: skip


def _missing(inventory: Inventory, name: str, namespace: str, home: str) -> tuple[str, str]:
    """Return why a name does not resolve, and the host that is probably meant."""
    problem = f"there is no Service {name} in the namespace {namespace}"
    names = [each.metadata.name for each in inventory.list(Service, namespace)]
    near = closest(name, names)
    if near:
        return problem, near if namespace == home else f"{near}.{namespace}"
    elsewhere = next(
        (each.metadata.namespace for each in inventory.list(Service) if each.metadata.name == name),
        "",
    )
    return problem, f"{name}.{elsewhere}" if elsewhere else ""


def _of_ingress(problems: _Problems, item: Ingress) -> Iterator[Connection]:
    namespace = item.metadata.namespace
    for route in routes_of(problems.inventory, item):
        wanted = route.backend.service
        if wanted is None:
            continue
        problem, service = route.problem, route.service
        if service is not None and not problem:
            problem = problems.of(service, 0)
        port = wanted.port.number or next(
            (each.port for each in (service.spec.ports if service else ())
             if wanted.port.name and each.name == wanted.port.name), 0
        )  # fmt: skip
        near = str(route.near) if service is None else ""
        yield Connection(
            item, "", route.path, f"route {route.shown}", wanted.name, port, namespace,
            wanted.name, service, problem, near,
        )  # fmt: skip


def running_pod(inventory: Inventory, item: Any) -> Pod | None:
    """Return a pod that runs: the object itself, or the first of those that it controls."""
    if isinstance(item, Pod):
        return item if item.status.phase == "Running" else None
    owned = [each for kind in (Pod, ReplicaSet, Job) for each in inventory.owned(kind, item)]
    return next(filter(None, (running_pod(inventory, each) for each in owned)), None)


def broken(edges: Iterable[Connection]) -> list[Connection]:
    return [edge for edge in edges if edge.problem]


# --- a pod that does not work, and the hosts that its manifest names

_BY_PROGRAM: Final = frozenset(
    {"DependencyMissing", "Fails", "BackingOff", "Terminated", "Aborted", "Usage", "AllRestarted",
     "LivenessKilled", "StartupKilled", "StartupWaiting", "InitRunning", "ReadinessRefused",
     "ReadinessPath", "ReadinessStatus", "ReadinessTimeout", "ReadinessExec", "ReadinessFailing"}
)  # fmt: skip
"""Causes that a program itself brings about, and that a host which does not answer may explain."""
MAX_CHECKED: Final = 4
"""The hosts of a container that are asked from inside its pod."""
_INSIDE: Final = "Asked from inside the pod"
_LISTEN: Final = (
    "Compare the target port of {} with the port on which the program in its pods listens, and see"
    " whether it listens on the address of the pod."
)


def with_connections(
    inventory: Inventory, pod: Pod, diagnosis: Diagnosis, owner: Any = None
) -> Diagnosis:
    """Add to the diagnosis of a pod the Service that its manifest names and that does not answer,
    asked from inside the pod if that is possible. It is the cause if the program's output names the
    host, otherwise a probable one. ``owner`` is the workload whose template defines the pod."""
    if diagnosis.cause not in _BY_PROGRAM:
        return diagnosis
    path, spec = pod_spec_of(owner) if owner is not None else (("spec",), pod.spec)
    namespace = pod.metadata.namespace
    edges = [
        edge
        for edge in _of_spec(_Problems(inventory), owner or pod, namespace, path, spec)
        if edge.container == diagnosis.container
    ]
    output = " ".join(each.text for each in diagnosis.evidence).lower()
    edges.sort(key=lambda edge: (not _is_named(edge.host, output), not edge.problem))
    for number, edge in enumerate(edges):
        check = None
        if number < MAX_CHECKED:
            check = inventory.check_connection(pod, edge.host, edge.port)
        is_named = _is_named(edge.host, output)
        if isinstance(check, ConnectionCheck) and not _is_fault(edge, check):
            if accepts(check) and (edge.problem or is_named):
                text = f"{_INSIDE}: {check_text(check)}."
                diagnosis = replace(diagnosis, sentences=(*diagnosis.sentences, text))
        elif edge.problem or isinstance(check, ConnectionCheck):
            return _with_fault(inventory, pod, owner, diagnosis, edge, check, is_named)
    return diagnosis


def _is_fault(edge: Connection, check: ConnectionCheck) -> bool:
    # That a name exists does not mean that its Service answers.
    return fails(check) or (check.port == 0 and edge.problem != "")


def _with_fault(
    inventory: Inventory,
    pod: Pod,
    owner: Any,
    diagnosis: Diagnosis,
    edge: Connection,
    check: ConnectionCheck | str | None,
    is_named: bool,
) -> Diagnosis:
    """Add a connection that fails by the manifests, or as it was seen. It is the cause if the
    program's output names the host."""
    service, seen = edge.service, ""
    hint = f"; perhaps {edge.near} is meant" if edge.near else ""
    problem = edge.problem
    if isinstance(check, ConnectionCheck):
        text = check_text(check)
        seen = f"{_INSIDE}: {text}." if problem else ""
        problem = problem or f"{text} (asked from inside the pod)"
    elif check:
        seen = f"This is a guess from the manifests; the pod cannot be asked: {check}."
    if not is_named:
        sentence = f"Probable cause: it names {edge.host} in {edge.source}, but {problem}{hint}."
        sentences = (*diagnosis.sentences, sentence)
    else:
        missing = service is None
        sentences = (diagnosis.title, f"{edge.host} is named in {edge.source}.")
        diagnosis = replace(
            diagnosis,
            cause="ServiceMissing" if missing else "ServiceUnreachable",
            title=f"{edge.container} cannot reach {edge.host}: {problem}{hint}.",
            brief=f"no Service {edge.name}" if missing else f"Service {edge.name} does not answer",
        )
    diagnosis = replace(diagnosis, sentences=(*sentences, seen) if seen else sentences)
    if service is None:
        return _with_change(inventory, owner or pod, diagnosis, edge, pod)
    part = Part(object_name(service), diagnose_service(inventory, service))
    advice = "" if edge.problem else _LISTEN.format(object_name(service))
    return replace(
        diagnosis,
        parts=(*diagnosis.parts, part) if edge.problem else diagnosis.parts,
        advice=advice if is_named else diagnosis.advice or advice,
    )


def _is_named(host: str, output: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", output) is not None


def _with_change(
    inventory: Inventory, item: Any, diagnosis: Diagnosis, edge: Connection, pod: Pod
) -> Diagnosis:
    """Add the field that names the host, and the change of its value."""
    value = _value_at(item, edge.path)
    new = value.replace(edge.host, edge.near, 1) if edge.near and edge.host in value else ""
    if item is pod:
        changes = ((f"Use the host {edge.near}", edge.path, new),) if new else ()
        return placed(inventory, item, diagnosis, edge.path, *changes)
    field = f"{edge.source} of {object_name(item)}"
    manifest = manifest_of(inventory, item)
    if manifest is not None:
        position, _ = find_place(read_places(manifest.status.places), edge.path)
        if position is not None:
            field = f"{field} ({manifest.metadata.name}, line {position[0]})"
    meant = f": {edge.near}" if edge.near else f", or create the Service {edge.name}"
    return replace(diagnosis, advice=f"Correct {field}{meant}.")


def _value_at(item: Any, path: Path) -> str:
    """Return the text of a field; empty if it is none."""
    value: Any = item
    for step in path:
        if isinstance(step, int):
            value = value[step] if len(value) > step else None
        else:
            value = getattr(value, step, None)
        if value is None:
            return ""
    return value if isinstance(value, str) else ""
