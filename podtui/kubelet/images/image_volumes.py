"""Image volumes: pull the images and fill the volumes before the containers start (kubelet.md
§10.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from podtui.api.pods import all_containers, pod_ref
from podtui.api.v1 import Container, Pod, Volume
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.images.image_manager import ImageFailure, ImageManager, ImageRequest
from podtui.kubelet.types import ObservedPod
from podtui.kubelet.volumes.pod_volumes import used_volumes
from podtui.runtime.protocol import ContainerState, Runtime

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VolumeFailure:
    """Why a container that mounts the volume does not start: its waiting reason and message, and
    the text of its ``Failed`` event."""

    reason: str
    message: str
    event: str


def failed_mount(
    container: Container, failures: Mapping[str, VolumeFailure]
) -> VolumeFailure | None:
    """Return the last failure among the volumes that the container mounts."""
    mounted = [failures[mount.name] for mount in container.volumeMounts if mount.name in failures]
    return mounted[-1] if mounted else None


def _mounted(pod: Pod, observed: ObservedPod) -> set[str]:
    """Return the names of the volumes that running containers mount."""
    running = {
        container.name
        for container in observed.containers
        if container.state is ContainerState.RUNNING
    }
    return {
        mount.name
        for _, container in all_containers(pod)
        if container.name in running
        for mount in container.volumeMounts
    }


class ImageVolumes:
    """Fills the image volumes that `podtui.runtime.protocol.Runtime.run_sandbox` created."""

    def __init__(self, runtime: Runtime, images: ImageManager) -> None:
        self._runtime = runtime
        self._images = images

    async def fill(
        self, pod: Pod, observed: ObservedPod, sandbox_id: str, stopping: asyncio.Event
    ) -> dict[str, VolumeFailure]:
        """Pull the image of each volume and fill the volumes that no running container mounts.
        Return the failures by volume; each blocks only the containers that mount the volume. Raises
        `EngineUnavailable`."""
        failures: dict[str, VolumeFailure] = {}
        busy = _mounted(pod, observed)
        for volume in used_volumes(pod):
            failure = await self._fill_one(pod, volume, sandbox_id, stopping, volume.name in busy)
            if failure is not None:
                failures[volume.name] = failure
        return failures

    async def _fill_one(
        self, pod: Pod, volume: Volume, sandbox_id: str, stopping: asyncio.Event, busy: bool
    ) -> VolumeFailure | None:
        source = volume.image
        if source is None:
            return None
        request = ImageRequest(source.reference, source.pullPolicy, "", volume.name)
        image = await self._images.ensure_image(pod, request, stopping)
        if isinstance(image, ImageFailure):
            return VolumeFailure(image.reason, image.message, image.reason)
        if busy:
            # Filling in another image would remove files that running containers read.
            return None
        try:
            await self._runtime.fill_volume(sandbox_id, volume.name, image.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            _LOG.warning("%s: image volume %s: %s", pod_ref(pod), volume.name, error)
            text = f"ImageVolumeMountFailed: {error}"
            return VolumeFailure("CreateContainerError", text, text)
        return None
