"""The usage that an object adds to a ResourceQuota, by resource name, and the scopes it matches.

Pods, Services and PersistentVolumeClaims use resources of their own; of every other namespaced kind
only the number of objects counts, as ``count/PLURAL.GROUP``. Events are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.networking import Ingress, NetworkPolicy
from podtui.api.pod_resources import (
    BEST_EFFORT,
    Amounts,
    compute_qos_class,
    is_pod_level,
    limit_amounts,
    request_amounts,
)
from podtui.api.pods import is_finished
from podtui.api.policy import PodDisruptionBudget
from podtui.api.quantity import NANO, Quantity, parse_quantity
from podtui.api.rbac import Role, RoleBinding
from podtui.api.selectors import labels_match
from podtui.api.times import parse_time
from podtui.api.v1 import (
    ConfigMap,
    Container,
    Endpoints,
    LabelSelector,
    LabelSelectorRequirement,
    Lease,
    LimitRange,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    ReplicationController,
    ResourceQuota,
    ResourceQuotaSpec,
    ScopedResourceSelectorRequirement,
    Secret,
    Service,
    ServiceAccount,
)

RESOURCES: Final[Mapping[type[Any], str]] = {
    ConfigMap: "configmaps",
    Endpoints: "endpoints",
    LimitRange: "limitranges",
    PersistentVolumeClaim: "persistentvolumeclaims",
    Pod: "pods",
    ReplicationController: "replicationcontrollers",
    ResourceQuota: "resourcequotas",
    Secret: "secrets",
    Service: "services",
    ServiceAccount: "serviceaccounts",
    ControllerRevision: "controllerrevisions.apps",
    DaemonSet: "daemonsets.apps",
    Deployment: "deployments.apps",
    ReplicaSet: "replicasets.apps",
    StatefulSet: "statefulsets.apps",
    HorizontalPodAutoscaler: "horizontalpodautoscalers.autoscaling",
    CronJob: "cronjobs.batch",
    Job: "jobs.batch",
    Lease: "leases.coordination.k8s.io",
    EndpointSlice: "endpointslices.discovery.k8s.io",
    Ingress: "ingresses.networking.k8s.io",
    NetworkPolicy: "networkpolicies.networking.k8s.io",
    PodDisruptionBudget: "poddisruptionbudgets.policy",
    Role: "roles.rbac.authorization.k8s.io",
    RoleBinding: "rolebindings.rbac.authorization.k8s.io",
}
"""The kinds that quotas count, and their resources with their groups."""
_ONE: Final = Quantity.of(1)
_ZERO: Final = Quantity(0)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_OWN_NAMES: Final = {
    "configmaps": {"configmaps"},
    "persistentvolumeclaims": {"persistentvolumeclaims", "requests.storage"},
    "pods": {
        "pods",
        *_COMPUTE,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE),
    },
    "replicationcontrollers": {"replicationcontrollers"},
    "resourcequotas": {"resourcequotas"},
    "secrets": {"secrets"},
    "services": {"services", "services.nodeports", "services.loadbalancers"},
}
"""The names in quotas beside ``count/RESOURCE``, by resource."""
_OF_A_CLASS: Final = (
    ".storageclass.storage.k8s.io/persistentvolumeclaims",
    ".storageclass.storage.k8s.io/requests.storage",
)
_HUGE_PAGES: Final = "hugepages-"
_EXPLICIT: Final = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class ApiObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def parsed(texts: Mapping[str, str]) -> Amounts:
    return {name: parse_quantity(text) for name, text in texts.items()}


def texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def plus(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    names = left.keys() | right.keys()
    return {name: left.get(name, _ZERO) + right.get(name, _ZERO) for name in names}


def names_used_by(resource: str, hard: Iterable[str]) -> set[str]:
    """Return those names in a quota that count objects of ``resource``, such as
    ``deployments.apps``."""
    own = {f"count/{resource}"} | _OWN_NAMES.get(resource, set[str]())
    return {
        name
        for name in hard
        if name in own
        or (resource == "pods" and _is_of_pods(name))
        or (resource == "persistentvolumeclaims" and name.endswith(_OF_A_CLASS))
    }


def _is_of_pods(name: str) -> bool:
    if name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}")):
        return True
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def usage(item: ApiObject, now: datetime) -> Amounts:
    """Return what an object uses, by the names in quotas."""
    resource = RESOURCES[type(item)]
    counted: Amounts = {f"count/{resource}": _ONE}
    match item:
        case Pod():
            if not _is_over(item, now):
                counted |= _compute(request_amounts(item, in_use=True), limit_amounts(item))
        case Service():
            counted |= _service(item)
        case PersistentVolumeClaim():
            counted |= _claim(item)
        case _:
            counted |= dict.fromkeys(_OWN_NAMES.get(resource, ()), _ONE)
    return counted


def _is_over(pod: Pod, now: datetime) -> bool:
    """Return whether a pod has ended, or should have by now."""
    if is_finished(pod):
        return True
    deleted = parse_time(pod.metadata.deletionTimestamp)
    grace = pod.metadata.deletionGracePeriodSeconds
    return deleted is not None and grace is not None and now > deleted + timedelta(seconds=grace)


def _compute(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Amounts:
    used: Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            used |= {name: amount, f"requests.{name}": amount}
        elif "/" in name and "kubernetes.io/" not in name:
            used[f"requests.{name}"] = amount
    return used | {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}


def _service(item: Service) -> Amounts:
    spec = item.spec
    ports = 0
    if spec.type == "NodePort":
        ports = len(spec.ports)
    elif spec.type == "LoadBalancer":
        every = spec.allocateLoadBalancerNodePorts is not False
        ports = sum(every or bool(port.nodePort) for port in spec.ports)
    return {
        "services": _ONE,
        "services.nodeports": Quantity.of(ports),
        "services.loadbalancers": Quantity.of(int(spec.type == "LoadBalancer")),
    }


def _claim(item: PersistentVolumeClaim) -> Amounts:
    used: Amounts = {"persistentvolumeclaims": _ONE}
    requests = {} if item.spec.resources is None else item.spec.resources.requests
    if "storage" in requests:
        sizes = (requests, item.status.allocatedResources)
        largest = max(parse_quantity(each["storage"]) for each in sizes if "storage" in each)
        if largest.nano % NANO:
            largest = Quantity.of(largest.value(), largest.format)
        used["requests.storage"] = largest
    name = item.metadata.annotations.get(_STORAGE_CLASS, item.spec.storageClassName)
    if name:
        used |= {f"{name}.storageclass.storage.k8s.io/{key}": used[key] for key in list(used)}
    return used


# --- scopes


def is_terminating(pod: Pod) -> bool:
    """Return whether a pod has a deadline, as the scope Terminating means it."""
    deadline = pod.spec.activeDeadlineSeconds
    return deadline is not None and deadline >= 0


def matches_scopes(spec: ResourceQuotaSpec, item: ApiObject) -> bool:
    """Return whether an object has all scopes of a quota. Only pods and claims have scopes."""
    selectors = [
        *(ScopedResourceSelectorRequirement(scopeName=s, operator="Exists") for s in spec.scopes),
        *(spec.scopeSelector.matchExpressions if spec.scopeSelector is not None else ()),
    ]
    return all(_has_scope(selector, item) for selector in selectors)


def _has_scope(selector: ScopedResourceSelectorRequirement, item: ApiObject) -> bool:
    match item, selector.scopeName:
        case Pod(), "Terminating":
            return is_terminating(item)
        case Pod(), "NotTerminating":
            return not is_terminating(item)
        case Pod(), "BestEffort":
            return compute_qos_class(item) == BEST_EFFORT
        case Pod(), "NotBestEffort":
            return compute_qos_class(item) != BEST_EFFORT
        case Pod(), "PriorityClass":
            return _selects(selector, (item.spec.priorityClassName,))
        case Pod(), "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespaceSelector for term in _affinity(item))
        case PersistentVolumeClaim(), "VolumeAttributesClass":
            current = item.status.currentVolumeAttributesClassName
            return _selects(selector, (item.spec.volumeAttributesClassName, current))
        case _:
            return False


def _selects(selector: ScopedResourceSelectorRequirement, names: Iterable[str]) -> bool:
    requirement = LabelSelectorRequirement(
        key=selector.scopeName, operator=selector.operator, values=selector.values
    )
    labels = [{selector.scopeName: name} for name in names if name] or [{}]
    return any(
        labels_match(LabelSelector(matchExpressions=(requirement,)), each) for each in labels
    )


def _affinity(pod: Pod) -> Iterable[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for each in () if affinity is None else (affinity.podAffinity, affinity.podAntiAffinity):
        if each is not None:
            yield from each.requiredDuringSchedulingIgnoredDuringExecution
            preferred = each.preferredDuringSchedulingIgnoredDuringExecution
            yield from (weighted.podAffinityTerm for weighted in preferred)


def missing_amounts(pod: Pod, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the containers without requests or limits that a quota of these names asks for, by
    name. A pod with resources of its own needs none."""
    resources = pod.spec.resources
    if resources is not None and any(map(is_pod_level, (*resources.requests, *resources.limits))):
        return {}
    missing: dict[str, list[str]] = {}
    for name in sorted(_EXPLICIT.intersection(names)):
        lacking = {
            container.name
            for container in (*pod.spec.containers, *pod.spec.initContainers)
            if name not in _of_container(container)
        }
        if lacking:
            missing[name] = sorted(lacking)
    return missing


def _of_container(container: Container) -> Amounts:
    resources = container.resources
    return _compute(parsed(resources.requests), parsed(resources.limits))


# --- totals


def used_amounts(
    spec: ResourceQuotaSpec,
    hard: Iterable[str],
    items: Callable[[str], Iterable[ApiObject]],
    now: datetime,
    resources: Iterable[str] = tuple(RESOURCES.values()),
) -> Amounts:
    """Return what the objects of a namespace use of a quota with the names ``hard``. ``items``
    returns the objects of a resource."""
    total: Amounts = {}
    hard = tuple(hard)
    for resource in resources:
        names = names_used_by(resource, hard)
        if not names:
            continue
        sums = dict.fromkeys(names, _ZERO)
        for item in items(resource):
            if matches_scopes(spec, item):
                amounts = usage(item, now)
                for name in names & amounts.keys():
                    sums[name] += amounts[name]
        total |= sums
    return total


def with_used(quota: ResourceQuota, used: Mapping[str, Quantity]) -> ResourceQuota:
    return structs.replace(quota, status=structs.replace(quota.status, used=texts(used)))
