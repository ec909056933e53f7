"""Maintain namespaces, as Kubernetes' controllers do.

Four namespaces always exist, and every one with a static pod in it. Every namespace has a service
account ``default`` and a ConfigMap with the CA certificate of the API. When a namespace is deleted,
its content is deleted first. The namespace is removed once nothing is left except static pods; for
these, it is created again.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from podtui.api.objects import Object
from podtui.api.pods import is_mirror
from podtui.api.times import rfc3339
from podtui.api.token_volumes import ROOT_CA
from podtui.api.v1 import (
    ConfigMap,
    Namespace,
    NamespaceCondition,
    ObjectMeta,
    Pod,
    ServiceAccount,
)
from podtui.clock import Clock
from podtui.errors import AlreadyExists, NotFound
from podtui.manifest.strategies.namespaces import (
    FINALIZER,
    NAME_LABEL,
    TERMINATING,
    new_namespace,
)
from podtui.server.resources.admission import DEFAULT_ACCOUNT
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.definitions import ALL
from podtui.server.resources.deletion import delete_record
from podtui.server.resources.field_managers import API_SERVER, CONTROLLER_MANAGER, managed
from podtui.server.resources.resource import AnyResource
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource

log = logging.getLogger(__name__)

PERMANENT: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_CA_KEY: Final = "ca.crt"
_CA_NOTE: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the"
    " kube-apiserver when using internal endpoints such as the internal service IP or"
    " kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
}
Remaining = Mapping[str, list[Object]]
"""The objects that are still in a namespace, by resource and group (``pods.``)."""
_RESTORED: Final = ("namespaces", "serviceaccounts", "configmaps")
"""A pass restores what clients change or delete of these."""


class NamespaceCare:
    """``root_ca`` returns the CA certificate as PEM; empty if the API is served without TLS."""

    def __init__(
        self, records: Records, clock: Clock, root_ca: Callable[[], str] = lambda: ""
    ) -> None:
        self._records = records
        self._clock = clock
        self._root_ca = root_ca
        self._contents: dict[Resource, AnyResource] = {
            resource.record: resource
            for resource in ALL
            if resource.record is not None and resource.namespaced and resource.strategy is not None
        }

    async def prepare(self) -> None:
        """Create the objects that must exist before the API is served."""
        await self._pass()

    async def update_root_ca(self) -> None:
        """Write the CA certificate, after it has changed, to all namespaces."""
        for item in (await self._records.list("namespaces")).items:
            if isinstance(item, Namespace) and not _terminating(item):
                await self._create_defaults(item.metadata.name)

    async def run(self) -> None:
        """Maintain all namespaces. Runs forever."""
        await run_control_loop(
            "namespaces",
            self._records,
            ("namespaces", *self._contents),
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, resource: Resource, change: Change) -> bool:
        """Return whether the change may need a pass. Most changes do not."""
        item = change.object
        if resource in _RESTORED:
            return True
        if item is None:
            return False
        if change.type is WatchType.MODIFIED and not _released(item, change.previous):
            return False
        namespace = await self._records.get("namespaces", "", item.metadata.namespace)
        return not isinstance(namespace, Namespace) or _terminating(namespace)

    async def _pass(self) -> None:
        pods = (await self._records.list("pods")).items
        mirrors = {
            pod.metadata.namespace for pod in pods if isinstance(pod, Pod) and is_mirror(pod)
        }
        listing = await self._records.list("namespaces")
        existing = {item.metadata.name for item in listing.items}
        for name in sorted({*PERMANENT, *mirrors} - existing):
            await self._create(name)
        for item in (await self._records.list("namespaces")).items:
            assert isinstance(item, Namespace)
            if _terminating(item):
                await self._end(item)
            else:
                await self._create_defaults(item.metadata.name)

    async def _create(self, name: str) -> None:
        with contextlib.suppress(AlreadyExists):
            now = rfc3339(self._clock.now())
            namespace = Namespace(metadata=ObjectMeta(name=name, labels={NAME_LABEL: name}))
            namespace = managed(namespace, None, manager=API_SERVER, now=now)
            await self._records.create("namespaces", new_namespace(namespace))

    async def _create_defaults(self, name: str) -> None:
        """Create the service account and the CA certificate of a namespace."""
        if await self._records.get("serviceaccounts", name, DEFAULT_ACCOUNT) is None:
            account = ServiceAccount(metadata=ObjectMeta(name=DEFAULT_ACCOUNT, namespace=name))
            await self._records.put("serviceaccounts", account)
        certificate = self._root_ca()
        if not certificate:
            return
        bundle = await self._records.get("configmaps", name, ROOT_CA)
        stored = bundle if isinstance(bundle, ConfigMap) else None
        meta = ObjectMeta(name=ROOT_CA, namespace=name, annotations=_CA_NOTE)
        updated = structs.replace(stored or ConfigMap(metadata=meta), data={_CA_KEY: certificate})
        now = rfc3339(self._clock.now())
        updated = managed(updated, stored, manager=CONTROLLER_MANAGER, now=now)
        await self._records.put("configmaps", updated)

    async def _end(self, namespace: Namespace) -> None:
        """Delete the content of a namespace, then the namespace. Its pods are deleted first; the
        rest stays until they are gone, because they may need it to end."""
        name = namespace.metadata.name
        remaining = await self._empty(("pods",), name)
        if not remaining:
            remaining = await self._empty(self._contents, name)
        now = rfc3339(self._clock.now())

        def updated(item: Namespace) -> Namespace:
            conditions = deletion_conditions(item.status.conditions, remaining, now)
            item = structs.replace(item, status=structs.replace(item.status, conditions=conditions))
            if remaining:
                return item
            finalizers = tuple(name for name in item.spec.finalizers if name != FINALIZER)
            return structs.replace(item, spec=structs.replace(item.spec, finalizers=finalizers))

        with contextlib.suppress(NotFound):
            ended = await self._records.update("namespaces", "", name, updated)
            if not ended.spec.finalizers and not ended.metadata.finalizers:
                await self._records.delete("namespaces", "", name)
                log.info("namespace %s is gone", name)

    async def _empty(self, resources: Iterable[Resource], namespace: str) -> Remaining:
        """Delete the objects of some resources. Return what is still there."""
        left = {
            f"{resource.plural}.{resource.group}": await self._delete_all(resource, namespace)
            for resource in map(self._contents.__getitem__, resources)
        }
        return {name: items for name, items in left.items() if items}

    async def _delete_all(self, resource: AnyResource, namespace: str) -> list[Object]:
        """Delete the objects of one resource. Return those that are still there."""
        assert resource.record is not None
        assert resource.strategy is not None
        left: list[Object] = []
        for item in (await self._records.list(resource.record, namespace)).items:
            if isinstance(item, Pod) and is_mirror(item):
                continue
            with contextlib.suppress(NotFound):
                deleted, gone = await delete_record(
                    self._records,
                    resource.record,
                    resource.strategy,
                    item,
                    seconds=None,
                    now=self._clock.now(),
                )
                if not gone:
                    left.append(deleted)
        return left


def deletion_conditions(
    before: tuple[NamespaceCondition, ...], remaining: Remaining, now: str
) -> tuple[NamespaceCondition, ...]:
    """Return the conditions of a terminating namespace, in the words of Kubernetes' namespace
    controller. A time changes with the status only."""
    content = finalizers = _Finding("ContentRemoved", "All content successfully removed")
    if remaining:
        counts = (f"{name} has {len(items)}" for name, items in remaining.items())
        text = _instances("Some resources are remaining", counts)
        content = _Finding("SomeResourcesRemain", text, status="True")
    held = Counter(
        name for items in remaining.values() for item in items for name in item.metadata.finalizers
    )
    if held:
        counts = (f"{name} in {count}" for name, count in held.items())
        text = _instances("Some content in the namespace has finalizers remaining", counts)
        finalizers = _Finding("SomeFinalizersRemain", text, status="True")
    findings = {
        "NamespaceDeletionDiscoveryFailure": _Finding(
            "ResourcesDiscovered", "All resources successfully discovered"
        ),
        "NamespaceDeletionGroupVersionParsingFailure": _Finding(
            "ParsedGroupVersions", "All legacy kube types successfully parsed"
        ),
        "NamespaceDeletionContentFailure": _Finding(
            "ContentDeleted", "All content successfully deleted, may be waiting on finalization"
        ),
        "NamespaceContentRemaining": content,
        "NamespaceFinalizersRemaining": finalizers,
    }
    earlier = {condition.type: condition for condition in before}
    others = tuple(condition for condition in before if condition.type not in findings)
    return (
        *others,
        *(finding.condition(kind, earlier.get(kind), now) for kind, finding in findings.items()),
    )


class _Finding(NamedTuple):
    reason: str
    message: str
    status: str = "False"

    def condition(
        self, kind: str, before: NamespaceCondition | None, now: str
    ) -> NamespaceCondition:
        same = before is not None and before.status == self.status
        return NamespaceCondition(
            type=kind,
            status=self.status,
            reason=self.reason,
            message=self.message,
            lastTransitionTime=before.lastTransitionTime if before is not None and same else now,
        )


def _released(item: Object, before: Object | None) -> bool:
    """Return whether an object that is being deleted has other finalizers than before."""
    if item.metadata.deletionTimestamp is None or before is None:
        return False
    return item.metadata.finalizers != before.metadata.finalizers


def _instances(head: str, counts: Iterable[str]) -> str:
    return f"{head}: {', '.join(sorted(f'{count} resource instances' for count in counts))}"


def _terminating(namespace: Namespace) -> bool:
    return namespace.status.phase == TERMINATING
