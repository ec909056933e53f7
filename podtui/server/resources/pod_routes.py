"""The subresources of pods that are requests, not updates: ``binding`` and ``eviction``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from aiohttp import web
from msgspec import structs

from podtui.api.policy import PodDisruptionBudget
from podtui.api.times import rfc3339
from podtui.api.v1 import Binding, DeleteOptions, Eviction, Pod, PodCondition, Preconditions
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.manifest.strategies.pods import PODS
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.errors import FieldError, not_supported, required
from podtui.server.encoding.bodies import decode_body, parse_body, to_struct
from podtui.server.encoding.decoding import decode_object
from podtui.server.encoding.media_types import without_table
from podtui.server.resources.deletion import delete_record, propagation
from podtui.server.resources.disruptions import (
    budget_of,
    disrupted,
    ignores_budgets,
    is_free,
    unprocessed,
)
from podtui.server.resources.options import precondition_failure, write_options
from podtui.server.resources.write import uid_mismatch
from podtui.server.status import bad_request, conflict, not_found, success
from podtui.store.protocol import Records

_PODS = "/api/v1/namespaces/{namespace}/pods/{name}"
_SCHEDULED = "PodScheduled"
_DISRUPTION = "DisruptionTarget"
S = TypeVar("S", Binding, Eviction)


class PodRequestRoutes:
    """Binds and evicts pods."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/v1/namespaces/{namespace}/bindings", without_table(self.bind)),
            web.post(f"{_PODS}/binding", without_table(self.bind)),
            web.post(f"{_PODS}/eviction", without_table(self.evict)),
        ]

    async def bind(self, request: web.Request) -> web.Response:
        """Assign a pod to a node."""
        options = write_options(request, "CreateOptions")
        binding = await _body(request, Binding, "v1")
        name = request.match_info.get("name", binding.metadata.name)
        if name != binding.metadata.name:
            raise bad_request("name in URL does not match name in Binding object")
        problems = _binding_problems(binding)
        if problems:
            texts = [problem.message() for problem in problems]
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise bad_request(text)
        namespace, now = request.match_info["namespace"], rfc3339(self._clock.now())

        def bound(pod: Pod) -> Pod:
            return bind(pod, binding, now)

        try:
            if options.dry_run:
                bound(await self._pod(namespace, name))
            else:
                await self._records.update("pods", namespace, name, bound)
        except NotFound:
            raise not_found("pods", name) from None
        return success(code=201)

    async def evict(self, request: web.Request) -> web.Response:
        """Delete a pod if its disruption budget allows it, and note in its status that it was
        evicted."""
        options = write_options(request, "CreateOptions")
        eviction = await _body(request, Eviction, "policy/v1")
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if name != eviction.metadata.name:
            raise bad_request("name in URL does not match name in Eviction object")
        wanted = eviction.deleteOptions or DeleteOptions()
        if options.dry_run:
            wanted = structs.replace(wanted, dryRun=("All",))
        pod = await self._pod(namespace, name)
        check = _preconditions(wanted.preconditions)
        is_same = await self._spend_budget(pod, dry_run=bool(wanted.dryRun))

        def check_both(current: Pod) -> None:
            check(current)
            is_same(current)

        try:
            if not wanted.dryRun:
                pod = await self._marked(pod, check_both)
                check = _preconditions(_without_version(wanted.preconditions))
            await delete_record(
                self._records,
                "pods",
                PODS,
                pod,
                seconds=wanted.gracePeriodSeconds,
                now=self._clock.now(),
                policy=propagation(wanted),
                check=check,
                dry_run=bool(wanted.dryRun),
            )
        except NotFound:
            raise not_found("pods", name) from None
        return success(code=201)

    async def _spend_budget(self, pod: Pod, *, dry_run: bool) -> Callable[[Pod], None]:
        """Take the eviction from the pod's disruption budget. Return the check of the pod at its
        eviction, which raises `StatusError` 429. Raises `StatusError` 403, 429 and 500."""
        budget = None if ignores_budgets(pod) else await budget_of(pod, self._records)
        if budget is None:
            return _accept
        meta, name = budget.metadata, pod.metadata.name
        if is_free(pod, budget):

            def check_version(current: Pod) -> None:
                if current.metadata.resourceVersion != pod.metadata.resourceVersion:
                    raise unprocessed(meta.name)

            return check_version
        now = rfc3339(self._clock.now())

        def spent(current: PodDisruptionBudget) -> PodDisruptionBudget:
            return disrupted(current, name, now)

        if dry_run:
            spent(budget)
        else:
            with suppress(NotFound):
                await self._records.update("poddisruptionbudgets", meta.namespace, meta.name, spent)
        return _accept

    async def _marked(self, pod: Pod, check: Callable[[Pod], None]) -> Pod:
        now = rfc3339(self._clock.now())

        def marked(pod: Pod) -> Pod:
            check(pod)
            condition = PodCondition(
                type=_DISRUPTION,
                status="True",
                reason="EvictionByEvictionAPI",
                message="Eviction API: evicting",
            )
            return with_condition(pod, condition, now)

        meta = pod.metadata
        return await self._records.update("pods", meta.namespace, meta.name, marked)

    async def _pod(self, namespace: str, name: str) -> Pod:
        pod = await self._records.get("pods", namespace, name)
        if not isinstance(pod, Pod):
            raise not_found("pods", name)
        return pod


async def _body(request: web.Request, struct: type[S], api_version: str) -> S:
    kind = struct.__name__
    document = parse_body(request, await request.read(), kind)
    tree, _ = decode_body(document, lambda tree: decode_object(tree, struct), api_version, kind)
    return to_struct(tree, struct)


def _accept(pod: Pod) -> None:
    pass


def _preconditions(wanted: Preconditions | None) -> Callable[[Pod], None]:
    def check(pod: Pod) -> None:
        meta = pod.metadata
        why = precondition_failure(wanted, meta.uid, meta.resourceVersion)
        if why:
            raise conflict("Pod", meta.name, why)

    return check


def _without_version(wanted: Preconditions | None) -> Preconditions | None:
    return None if wanted is None else structs.replace(wanted, resourceVersion="")


def _binding_problems(binding: Binding) -> list[FieldError]:
    target = binding.target
    problems: list[FieldError] = []
    if target.kind not in ("", "Node"):
        problems.append(not_supported("target.kind", target.kind, ("Node", "<empty>")))
    if not target.name:
        problems.append(required("target.name"))
    return problems


def bind(pod: Pod, binding: Binding, now: str) -> Pod:
    """Return the pod on the binding's node. Raises `StatusError` 409."""
    meta = pod.metadata
    why = ""
    if meta.deletionTimestamp is not None:
        why = f"pod {meta.name} is being deleted, cannot be assigned to a host"
    elif pod.spec.nodeName:
        why = f'pod {meta.name} is already assigned to node "{pod.spec.nodeName}"'
    elif pod.spec.schedulingGates:
        why = f"pod {meta.name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", meta.name, why)
    bound = binding.metadata
    if bound.uid and bound.uid != meta.uid:
        raise conflict("pods", meta.name, uid_mismatch("pods", bound.uid, meta))
    if bound.resourceVersion and bound.resourceVersion != meta.resourceVersion:
        raise conflict("pods", meta.name)
    pod = structs.replace(
        pod,
        spec=structs.replace(pod.spec, nodeName=binding.target.name),
        status=structs.replace(pod.status, nominatedNodeName=""),
    )
    pod = with_meta(
        pod,
        annotations=meta.annotations | bound.annotations,
        labels=meta.labels | bound.labels,
    )
    return with_condition(pod, PodCondition(type=_SCHEDULED, status="True"), now)


def with_condition(pod: Pod, condition: PodCondition, now: str) -> Pod:
    """Set a condition in the status; its time changes with its status only."""
    before = next((old for old in pod.status.conditions if old.type == condition.type), None)
    same = before is not None and before.status == condition.status
    since = before.lastTransitionTime if before is not None and same else now
    condition = structs.replace(condition, lastTransitionTime=since)
    if before is None:
        conditions = (*pod.status.conditions, condition)
    else:
        conditions = tuple(
            condition if old.type == condition.type else old for old in pod.status.conditions
        )
    return structs.replace(pod, status=structs.replace(pod.status, conditions=conditions))
