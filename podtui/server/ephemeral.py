"""The ``ephemeralcontainers`` subresource of pods, as used by ``kubectl debug``."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from aiohttp import web
from msgspec import structs

from podtui.api.reading import without_nulls
from podtui.api.v1 import EphemeralContainer, Pod, StatusCause, StatusDetails
from podtui.errors import InvalidUpdate
from podtui.manifest.defaults import container_defaults
from podtui.server.objects import encode
from podtui.server.protocol import KubeletEndpoints
from podtui.server.status import StatusError, bad_request, json_response, not_found
from podtui.store.protocol import Records

Tree = dict[str, Any]
_DIRECTIVE: Final = "$patch"
_DIRECTIVES: Final = "$"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_FIELD: Final = "ephemeralContainers"


class EphemeralContainerRoutes:
    """Reads only the ephemeral containers of a request body; other fields are ignored."""

    def __init__(self, records: Records, kubelet: KubeletEndpoints) -> None:
        self._records = records
        self._kubelet = kubelet

    def routes(self) -> list[web.RouteDef]:
        path = "/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers"
        return [
            web.get(path, self.read),
            web.put(path, self.replace),
            web.patch(path, self.patch),
        ]

    async def read(self, request: web.Request) -> web.Response:
        return _answer(await self._pod(request))

    async def replace(self, request: web.Request) -> web.Response:
        pod, body = await self._pod(request), await _body(request)
        name = body.get("metadata", {}).get("name")
        if name != pod.metadata.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL"
                f" ({pod.metadata.name})"
            )
        return await self._set(pod, body, _items(body))

    async def patch(self, request: web.Request) -> web.Response:
        if request.content_type not in (MERGE, STRATEGIC):
            raise StatusError(
                415,
                "the body of the request was in an unknown format - accepted media types include:"
                f" {MERGE}, {STRATEGIC}",
            )
        pod, body = await self._pod(request), await _body(request)
        old = cast("list[Tree]", msgspec.to_builtins(pod.spec.ephemeralContainers))
        if _FIELD not in body.get("spec", {}):
            wanted = old
        elif request.content_type == MERGE:
            wanted = _items(body)
        else:
            try:
                wanted = merged_by_name(old, _items(body))
            except ValueError as error:
                raise bad_request(str(error)) from error
        return await self._set(pod, body, wanted)

    async def _pod(self, request: web.Request) -> Pod:
        name = request.match_info["pod"]
        pod = await self._records.get("pods", request.match_info["namespace"], name)
        if not isinstance(pod, Pod):
            raise not_found("pods", name)
        return pod

    async def _set(self, pod: Pod, body: Tree, wanted: list[Tree]) -> web.Response:
        meta = pod.metadata
        for key, known in (("resourceVersion", meta.resourceVersion), ("uid", meta.uid)):
            if body.get("metadata", {}).get(key) not in (None, "", known):
                raise _conflict(meta.name)
        try:
            changed = await self._kubelet.set_ephemeral_containers(
                meta.namespace, meta.name, _decoded(wanted)
            )
        except LookupError as error:
            raise not_found("pods", meta.name) from error
        except InvalidUpdate as error:
            raise _invalid(meta.name, error) from error
        version = structs.replace(changed.metadata, resourceVersion=meta.resourceVersion)
        return _answer(structs.replace(changed, metadata=version))


async def _body(request: web.Request) -> Tree:
    if request.query.get("dryRun"):
        raise bad_request("dryRun is not supported")
    try:
        body: Any = msgspec.json.decode(await request.read())
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding the body: {error}") from error
    parts = (body, body.get("metadata", {}), body.get("spec", {})) if _is_tree(body) else (None,)
    if not all(_is_tree(part) for part in parts):
        raise bad_request("the body is not a Pod")
    return body


def _is_tree(value: object) -> bool:
    return isinstance(value, dict)


def _items(body: Tree) -> list[Tree]:
    found: Any = body.get("spec", {}).get(_FIELD)
    if found is None:
        return []
    if not isinstance(found, list) or not all(map(_is_tree, cast("list[Any]", found))):
        raise bad_request(f"spec.{_FIELD} is not a list of containers")
    return cast("list[Tree]", found)


def _decoded(items: list[Tree]) -> tuple[EphemeralContainer, ...]:
    containers: list[EphemeralContainer] = []
    for item in items:
        tree = cast("Tree", without_nulls(item))
        try:
            # Convert first, because the defaults rely on correct field types.
            shaped: Tree = msgspec.to_builtins(msgspec.convert(tree, EphemeralContainer))
            container_defaults(shaped)
            containers.append(msgspec.convert(shaped, EphemeralContainer))
        except (msgspec.ValidationError, ValueError) as error:
            raise bad_request(f'Pod in version "v1" cannot be handled as a Pod: {error}') from error
    return tuple(containers)


def _answer(pod: Pod) -> web.Response:
    return json_response(encode(pod, "v1", "Pod"))


def _conflict(name: str) -> StatusError:
    return StatusError(
        409,
        f'Operation cannot be fulfilled on pods "{name}": the object has been modified;'
        " please apply your changes to the latest version and try again",
        details=StatusDetails(name=name, kind="pods"),
    )


def _invalid(name: str, error: InvalidUpdate) -> StatusError:
    causes = tuple(
        StatusCause(reason=reason, message=message, field=field)
        for reason, field, message in error.causes
    )
    return StatusError(
        422,
        f'Pod "{name}" is invalid: {error}',
        details=StatusDetails(name=name, kind="Pod", causes=causes),
    )


def merged_by_name(old: list[Tree], patch: list[Tree]) -> list[Tree]:
    """Apply a strategic merge patch to a list of named items: items with the same name are merged,
    new ones are appended. Raises ValueError for an item without a name."""
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [merged({}, item) for item in patch if item.get(_DIRECTIVE) != "replace"]
    result = {str(item["name"]): item for item in old}
    for item in patch:
        name = item.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("map: does not contain declared merge key: name")
        if item.get(_DIRECTIVE) == "delete":
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), item)
    return list(result.values())


def merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): null removes a key, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result: Tree = dict(cast("Tree", old)) if isinstance(old, dict) else {}
    for key, value in cast("Tree", patch).items():
        if key.startswith(_DIRECTIVES):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
