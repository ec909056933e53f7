"""The checks of an API server before it passes a request for a pod on to the kubelet.

The kubelet has its own checks, with other texts, and does not know pods that no node has yet.
"""

from __future__ import annotations

from aiohttp import web

from podtui.api.pods import container_names
from podtui.api.v1 import Pod
from podtui.server.status import Handler, StatusError, bad_request, not_found
from podtui.store.protocol import Records


class PodLocations:
    def __init__(self, records: Records, node_name: str) -> None:
        self._records = records
        self._node_name = node_name

    async def pod(self, request: web.Request) -> Pod:
        """Return the pod that a request names. Raises `StatusError` 404."""
        return await self.named(request.match_info["namespace"], request.match_info["pod"])

    async def named(self, namespace: str, name: str) -> Pod:
        """Raises `StatusError` 404."""
        found = await self._records.get("pods", namespace, name)
        if not isinstance(found, Pod):
            raise not_found("pods", name)
        return found

    def checked(self, handler: Handler, *, container: bool) -> Handler:
        """Return a handler that first checks that the pod has a node and, with ``container``, the
        container of the request."""

        async def located(request: web.Request) -> web.StreamResponse:
            pod = await self.pod(request)
            if container:
                check_container(pod, request.query.get("container", ""))
            if not pod.spec.nodeName:
                raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
            self.check_node(pod)
            return await handler(request)

        return located

    def check_node(self, pod: Pod) -> None:
        """Raises `StatusError` 500 if the pod runs on another node: podtui does not connect to the
        kubelets of other nodes."""
        node = pod.spec.nodeName
        if node != self._node_name:
            raise StatusError(
                500,
                f'pod "{pod.metadata.name}" is bound to node "{node}", '
                f'but this agent reaches only the kubelet of node "{self._node_name}"',
            )


def check_container(pod: Pod, name: str) -> None:
    """Check the container that a request names; without a name, the pod must have only one.

    Raises `StatusError` 400.
    """
    names = container_names(pod)
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
    if not name and len(pod.spec.containers) != 1:
        raise bad_request(
            f"a container name must be specified for pod {pod.metadata.name}, choose one of:"
            f" [{' '.join(names)}]"
        )
