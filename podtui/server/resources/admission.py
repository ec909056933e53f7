"""Admission: complete or refuse an object when it is created or updated. Implements the plugins
NamespaceLifecycle, ServiceAccount, Priority, DefaultTolerationSeconds, DefaultIngressClass,
DefaultStorageClass, LimitRanger, StorageObjectInUseProtection, PersistentVolumeClaimResize,
RuntimeClass and PodResizeValidator of a default API server, and its allocation of addresses.
`podtui.server.resources.quotas` implements ResourceQuota."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

from msgspec import structs

from podtui.api.networking import Ingress
from podtui.api.objects import Object, T
from podtui.api.pod_resources import in_unit, request_amounts
from podtui.api.pods import is_mirror
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.scheduling import PriorityClass
from podtui.api.times import rfc3339
from podtui.api.token_volumes import with_token_volume
from podtui.api.v1 import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    Service,
    ServiceAccount,
    StatusCause,
    StatusDetails,
)
from podtui.clock import Clock
from podtui.manifest.strategies.namespaces import TERMINATING
from podtui.manifest.strategies.pods import with_tolerations
from podtui.manifest.strategies.strategy import unchanged
from podtui.manifest.strategies.volumes import transition_time
from podtui.manifest.validation.priority_classes import SYSTEM_VALUES
from podtui.server.resources.ingress_classes import with_default_class
from podtui.server.resources.limit_ranges import (
    limit_ranges,
    refuse_outside,
    with_default_resources,
)
from podtui.server.resources.priorities import (
    check_default,
    other_default,
    priority_class_of,
    with_priority,
)
from podtui.server.resources.resource import AnyResource, Resource
from podtui.server.resources.runtime_class import runtime_class_of, with_runtime_class
from podtui.server.resources.service_addresses import allocation
from podtui.server.resources.storage_classes import (
    admitted_claim,
    check_expansion,
    class_of,
    protected_volume,
)
from podtui.server.status import StatusError, forbidden, not_found, submitted_name
from podtui.store.protocol import Records

DEFAULT_ACCOUNT: Final = "default"
UNDELETABLE: Final = ("default", "kube-system", "kube-public")
_ATTEMPTS: Final = 10
_RETRY_SECONDS: Final = 0.1
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def admission(resource: Resource[T], records: Records, clock: Clock) -> Callable[[T], Awaitable[T]]:
    """Return the admission of new objects of a resource."""

    async def admit(item: T) -> T:
        if resource.namespaced:
            await _check_namespace(resource, item, records)
        admitted: Object = item
        match admitted:
            case Pod():
                admitted = await _admit_pod(admitted, records, clock)
            case Ingress():
                admitted = await with_default_class(admitted, records)
            case PriorityClass():
                check_default(admitted, await other_default(admitted, records))
            case PersistentVolume():
                admitted = protected_volume(admitted)
            case PersistentVolumeClaim():
                admitted = await admitted_claim(admitted, records)
            case Service():
                admitted = (await allocation(records, admitted)).created(admitted)
            case _:
                pass
        return cast("T", admitted)

    return admit


async def update_completion(
    subresource: str, old: T, records: Records, clock: Clock
) -> Callable[[T, T], T]:
    """Return what sets fields in an update (new, old) that depend on other objects, or on the time.
    It raises `StatusError`."""
    if subresource == "status" and isinstance(old, PersistentVolume):
        complete = partial(transition_time, now=rfc3339(clock.now()))
        return cast("Callable[[T, T], T]", complete)
    if subresource or not isinstance(old, Service):
        return unchanged
    return cast("Callable[[T, T], T]", (await allocation(records, old)).updated)


async def check_limits(item: Object, records: Records) -> None:
    """Refuse a new object outside the limits of its namespace. Raises `StatusError` 403."""
    if isinstance(item, Pod | PersistentVolumeClaim):
        refuse_outside(item, await limit_ranges(item.metadata.namespace, records))


async def update_admission(
    subresource: str, old: Object, records: Records
) -> Callable[[Object, Object], None]:
    """Return the check of an update (new, old), which raises `StatusError` 403."""
    if isinstance(old, PriorityClass):
        other = await other_default(old, records)

        def check_class(new: Object, before: Object) -> None:
            assert isinstance(new, PriorityClass)
            check_default(new, other)

        return check_class
    if not subresource and isinstance(old, PersistentVolumeClaim):
        storage_class = await class_of(old, records)
        limits = await limit_ranges(old.metadata.namespace, records)

        def check_claim(new: Object, before: Object) -> None:
            assert isinstance(new, PersistentVolumeClaim)
            assert isinstance(before, PersistentVolumeClaim)
            check_expansion(new, before, storage_class)
            if before.metadata.deletionTimestamp is None:
                refuse_outside(new, limits)

        return check_claim
    if subresource != "resize" or not isinstance(old, Pod):
        return _admit_all
    node = await records.get("nodes", "", old.spec.nodeName) if old.spec.nodeName else None
    ranges = await limit_ranges(old.metadata.namespace, records)

    def check(new: Object, before: Object) -> None:
        assert isinstance(new, Pod)
        assert isinstance(before, Pod)
        if before.metadata.deletionTimestamp is None:
            refuse_outside(new, ranges)
        if new.spec != before.spec and new.spec.nodeName:
            _check_resize(new, node if isinstance(node, Node) else None)

    return check


def _admit_all(new: Object, old: Object) -> None:
    pass


def _check_resize(pod: Pod, node: Node | None) -> None:
    """Refuse requests that the node could not hold even without other pods. Raises `StatusError`
    403."""
    if node is None:
        raise forbidden("pods", pod.metadata.name, f'node "{pod.spec.nodeName}" not found')
    requests, excess = request_amounts(pod), list[str]()
    for name in ("cpu", "memory"):
        amount = requests.get(name, Quantity(0))
        limit = parse_quantity(node.status.allocatable.get(name, "0"))
        if limit < amount:
            wanted, allocatable = in_unit(name, amount), in_unit(name, limit)
            excess.append(f"{name}, requested: {wanted}, allocatable: {allocatable}")
    if excess:
        why = f"node didn't have enough allocatable resources: {'; '.join(excess)}"
        refusal = forbidden("pods", pod.metadata.name, why)
        assert refusal.details is not None
        causes = (StatusCause(reason="NodeCapacity"),)
        refusal.details = structs.replace(refusal.details, causes=causes)
        raise refusal


def check_deletion(resource: AnyResource, name: str) -> None:
    """Refuse to delete a namespace or a priority class that Kubernetes needs. Raises `StatusError`
    403."""
    if resource.kind == "Namespace" and name in UNDELETABLE:
        raise forbidden(resource.plural, name, "this namespace may not be deleted")
    if resource.kind == "PriorityClass" and name in SYSTEM_VALUES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(resource.plural, name, why, resource.group)


async def _check_namespace(resource: AnyResource, item: Object, records: Records) -> None:
    name = item.metadata.namespace
    namespace = await records.get("namespaces", "", name)
    if not isinstance(namespace, Namespace):
        raise not_found("namespaces", name)
    if namespace.status.phase == TERMINATING:
        cause = StatusCause(
            reason="NamespaceTerminating",
            message=f"namespace {name} is being terminated",
            field="metadata.namespace",
        )
        object_name = submitted_name(item.metadata)
        raise StatusError(
            403,
            f'{resource.qualified_name} "{object_name}" is forbidden: unable to create new content'
            f" in namespace {name} because it is being terminated",
            details=StatusDetails(
                name=object_name, group=resource.group, kind=resource.plural, causes=(cause,)
            ),
        )


async def _admit_pod(pod: Pod, records: Records, clock: Clock) -> Pod:
    pod = with_default_resources(pod, await limit_ranges(pod.metadata.namespace, records))
    if is_mirror(pod):
        _check_mirror(pod)
    else:
        pod = with_account(pod, await _account(pod, records, clock))
    pod = with_priority(pod, await priority_class_of(pod, records))
    pod = structs.replace(pod, spec=with_tolerations(pod.spec))
    return with_runtime_class(pod, await runtime_class_of(pod, records))


async def _account(pod: Pod, records: Records, clock: Clock) -> ServiceAccount:
    """Return the pod's service account. In a new namespace it may take a moment to exist."""
    namespace = pod.metadata.namespace
    name = pod.spec.serviceAccountName or DEFAULT_ACCOUNT
    for attempt in range(_ATTEMPTS if name == DEFAULT_ACCOUNT else 1):
        if attempt:
            await clock.sleep(_RETRY_SECONDS)
        account = await records.get("serviceaccounts", namespace, name)
        if isinstance(account, ServiceAccount):
            return account
    why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise _forbidden(pod, why)


def _check_mirror(pod: Pod) -> None:
    if pod.spec.serviceAccountName:
        raise _forbidden(pod, "a mirror pod may not reference service accounts")
    for volume in pod.spec.volumes:
        if volume.secret is not None:
            raise _forbidden(pod, "a mirror pod may not reference secrets")
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.serviceAccountToken is not None:
                why = "a mirror pod may not use ServiceAccountToken volume projections"
                raise _forbidden(pod, why)


def with_account(pod: Pod, account: ServiceAccount) -> Pod:
    """Set the service account of a pod, its token volume and its pull secrets."""
    spec = structs.replace(
        pod.spec,
        serviceAccountName=account.metadata.name,
        serviceAccount=account.metadata.name,
        imagePullSecrets=pod.spec.imagePullSecrets or account.imagePullSecrets,
    )
    choices = (spec.automountServiceAccountToken, account.automountServiceAccountToken, True)
    if next(choice for choice in choices if choice is not None):
        spec = _with_token(spec)
    return structs.replace(pod, spec=spec)


def _with_token(spec: PodSpec) -> PodSpec:
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
    return with_token_volume(spec, suffix)


def _forbidden(pod: Pod, why: str) -> StatusError:
    """Return the error for a new pod."""
    return forbidden("pods", submitted_name(pod.metadata), why)
