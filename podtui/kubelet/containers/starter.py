"""Start one container (kubelet.md §6.5, 6.6): back-off, image, create, start, hook."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from podtui.api.insight import StepKind
from podtui.api.kills import KillReason
from podtui.api.pod_resources import is_static
from podtui.api.pods import is_sidecar, pod_ref
from podtui.api.v1 import Container, Pod, Service
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, SubPathError
from podtui.kubelet.backoff import (
    Backoff,
    CrashKey,
    crash_event,
    crash_key,
    crash_limits,
    crash_message,
)
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.cgroups import cgroup_rules
from podtui.kubelet.containers.container_config import container_config
from podtui.kubelet.containers.environment import ENV_FILE_LIMIT, env_files
from podtui.kubelet.containers.ephemeral import target_id
from podtui.kubelet.containers.hosts import hosts_file
from podtui.kubelet.containers.killer import Hooks, Killer
from podtui.kubelet.containers.mounts import sub_path_failure
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder, field_path
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.images.image_manager import ImageFailure, ImageManager
from podtui.kubelet.images.image_volumes import VolumeFailure, failed_mount
from podtui.kubelet.kubelet_metrics import STARTED_CONTAINERS, STARTED_CONTAINERS_ERRORS
from podtui.kubelet.ports import PodNetwork, ServiceSource
from podtui.kubelet.resource_managers.device_manager import DeviceError
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers
from podtui.kubelet.types import ConfigError, NodeContext, NodeView, ObservedContainer
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.documents import Documents
from podtui.kubelet.volumes.pod_volumes import used_volumes
from podtui.manifest.validation.resources import is_extended
from podtui.runtime.protocol import ContainerState, EngineInfo, Runtime, Started

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why a container does not run: a waiting reason and its message.

    ``retry_in`` is the time in seconds until a retry makes sense; None leaves it to the worker.
    """

    reason: str
    message: str
    retry_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartContext:
    """The context in which a container starts: its pod's sandbox and the node."""

    sandbox_id: str
    pod_ips: tuple[str, ...]
    view: NodeView
    node: NodeContext
    engine: EngineInfo
    volume_failures: Mapping[str, VolumeFailure]
    """Image volumes that could not be filled, by name."""
    container_ids: Mapping[str, str]
    """Ids of the newest instances of the pod's containers, by name."""


class ContainerStarter:
    def __init__(
        self,
        *,
        runtime: Runtime,
        images: ImageManager,
        killer: Killer,
        events: EventRecorder,
        hooks: Hooks,
        documents: Documents,
        services: ServiceSource | None,
        network: PodNetwork | None,
        managers: ResourceManagers,
        timelines: Timelines,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._killer = killer
        self._events = events
        self._hooks = hooks
        self._documents = documents
        self._services = services
        self._network = network
        self._managers = managers
        self._timelines = timelines
        self._clock = clock
        self._config = config
        self._backoff = Backoff(*crash_limits(config))
        self.reasons = ReasonCache()
        """The last failed start of each container, for its status."""

    def crash_backoff(
        self, pod: Pod, container: Container, newest: ObservedContainer | None
    ) -> StartFailure | None:
        """Return a failure if the container must wait after its last exit; else record a restart.

        For an instance that never ran, the wait counts from its creation.
        """
        if newest is None or newest.state is not ContainerState.EXITED:
            return None
        ended = newest.finished_at or newest.created_at
        now = self._clock.monotonic()
        since = now - max(0.0, (self._clock.now() - ended).total_seconds())
        key = crash_key(pod, container)
        left = self._backoff.remaining(key, now, since)
        if left <= 0:
            self._backoff.next(key, now, since)
            return None
        self._event(pod, container, WARNING, "BackOff", crash_event(pod, container))
        message = crash_message(pod, container, self._backoff.delay(key))
        return StartFailure("CrashLoopBackOff", message, left)

    def forget(self, uid: str) -> None:
        """Drop the back-offs of a pod that is gone or starts over."""
        self._backoff.discard(lambda key: cast("CrashKey", key)[2] == uid)
        self._images.forget(uid)

    def collect(self) -> None:
        """Drop the expired back-offs."""
        self._backoff.collect(self._clock.monotonic())
        self._images.collect()

    async def start(
        self,
        pod: Pod,
        container: Container,
        context: StartContext,
        *,
        newest: ObservedContainer | None,
        restart_count: int,
        stopping: asyncio.Event,
    ) -> StartFailure | None:
        """Start the container; return the failure, or None once it runs.

        Raises `EngineUnavailable`.
        """
        # The cheapest checks come first: a container that has to wait pulls no image.
        failure = self.crash_backoff(pod, container, newest)
        if failure is not None:
            return failure
        lost = failed_mount(container, context.volume_failures)
        if lost is not None:
            return self._failed(pod, container, lost.reason, lost.message, text=lost.event)
        image = await self._images.ensure(pod, container, stopping)
        if isinstance(image, ImageFailure):
            return self._failed(pod, container, image.reason, image.message, text=image.reason)
        # A pull may take minutes.
        if stopping.is_set():
            return StartFailure("ContainerCreating", "the pod is being stopped")
        self._timelines.began(pod, StepKind.CREATE, container.name)
        documents = await self._documents.of(pod)
        try:
            hosts = await hosts_file(
                pod,
                container,
                context.pod_ips,
                local=context.engine.local,
                cluster_domain=self._config.cluster_domain,
            )
            values = ValueSources(
                node=context.view,
                pod_ips=context.pod_ips,
                host_ips=context.node.host_ips,
                config_maps=documents.config_maps,
                secrets=documents.secrets,
                env_files=await self._env_files(pod, container, context.sandbox_id),
                services=await self._services_of(pod, context.sandbox_id),
            )
            devices = await self._managers.prepare_devices(pod, container)
            config = container_config(
                pod,
                container,
                values,
                context.node,
                image=image,
                restart_count=restart_count,
                hosts=hosts,
                rules=cgroup_rules(self._config, lower_oom=context.engine.supports_lower_oom_score),
                placement=self._managers.placement(pod, container),
                devices=devices,
                target_container_id=target_id(pod, container.name, context.container_ids),
            )
        except (ConfigError, DeviceError) as error:
            return self._failed(pod, container, "CreateContainerConfigError", str(error))
        try:
            created = await self._runtime.create_container(context.sandbox_id, config)
        except EngineUnavailable:
            raise
        except SubPathError as error:
            # An event must not reveal to the pod's owner which files the node has.
            _LOG.warning("%s: %s: %s", pod_ref(pod), container.name, error)
            text = sub_path_failure(container, error.container_path)
            return self._failed(pod, container, "CreateContainerConfigError", text)
        except EngineError as error:
            return self._failed(pod, container, "CreateContainerError", str(error))
        self._event(pod, container, NORMAL, "Created", "Container created")
        try:
            started = await self._runtime.start_container(created.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            # Each try makes a new id. With the name, the text stays the same, and its events are
            # counted as one.
            text = str(error).replace(created.id, container.name)
            return self._failed(pod, container, "RunContainerError", text)
        STARTED_CONTAINERS.labels(container_type(pod, container)).inc()
        self._event(pod, container, NORMAL, "Started", "Container started")
        self._timelines.started(pod, container, started.id, init=_ends_first(pod, container))
        self._degraded(pod, container, context.view, created, started)
        return await self._post_start(pod, container, started.id)

    async def _services_of(self, pod: Pod, sandbox_id: str) -> tuple[Service, ...]:
        if self._services is None:
            return ()
        if self._network is not None:
            # With ``strict``, static pods are those of a kubelet without an API server. A variable
            # with an address that the pod cannot reach would only mislead its programs.
            without_api = self._config.strict and is_static(pod)
            if without_api or not self._network.reaches_services(sandbox_id):
                return ()
        return await self._services.of(pod)

    async def _env_files(
        self, pod: Pod, container: Container, sandbox_id: str
    ) -> dict[tuple[str, str], bytes | None]:
        """Read the files that variables come from, of the volumes that exist."""
        volumes = {volume.name for volume in used_volumes(pod)}
        files: dict[tuple[str, str], bytes | None] = {}
        for volume, path in env_files(container):
            if volume not in volumes:
                continue
            try:
                content = await self._runtime.read_volume(
                    sandbox_id, volume, path, ENV_FILE_LIMIT + 1
                )
            except EngineUnavailable:
                raise
            except EngineError as error:
                _LOG.warning("%s: volume %s: %s", pod_ref(pod), volume, error)
                content = None
            files[volume, path] = content
        return files

    def _degraded(self, pod: Pod, container: Container, node: NodeView, *steps: Started) -> None:
        """Report what the container runs without. Admission ignores extended resources that the
        node does not have, as in the kubelet."""
        lost = dict.fromkeys(warning for step in steps for warning in step.warnings)
        missing = [
            name
            for name in sorted(container.resources.limits)
            if is_extended(name) and name not in node.resources.capacity
        ]
        lost |= dict.fromkeys(f"the node has no {name}" for name in missing)
        if lost:
            self._event(pod, container, WARNING, "Degraded", "; ".join(lost))

    async def _post_start(
        self, pod: Pod, container: Container, container_id: str
    ) -> StartFailure | None:
        if container.lifecycle is None or container.lifecycle.postStart is None:
            return None
        self._timelines.began(pod, StepKind.POST_START, container.name)
        problem = await self._hooks.post_start(pod, container, container_id)
        self._timelines.ended(pod, StepKind.POST_START, container.name, failed=bool(problem))
        if not problem:
            return None
        # The hook is part of the start: a container without it must not serve.
        self._event(pod, container, WARNING, "FailedPostStartHook", "PostStartHook failed")
        try:
            await self._killer.kill_container(
                pod,
                container_id,
                container.name,
                reason=KillReason.POST_START,
                output=problem,
                message="FailedPostStartHook",
            )
        except EngineUnavailable:
            raise
        except EngineError as error:
            _LOG.warning("%s: %s is not stopped: %s", pod_ref(pod), container.name, error)
        return StartFailure("PostStartHookError", problem)

    def _failed(
        self, pod: Pod, container: Container, reason: str, message: str, *, text: str = ""
    ) -> StartFailure:
        STARTED_CONTAINERS_ERRORS.labels(container_type(pod, container), reason).inc()
        self._event(pod, container, WARNING, "Failed", f"Error: {text or message}")
        self._timelines.ended(pod, StepKind.CREATE, container.name, failed=True, note=reason)
        return StartFailure(reason, message)

    def _event(self, pod: Pod, container: Container, kind: str, reason: str, message: str) -> None:
        self._events.pod(pod, kind, reason, message, field_path(pod, container.name))


def container_type(pod: Pod, container: Container) -> str:
    """Return ``container``, ``init_container`` or ``ephemeral_container``, as metrics call it."""
    if any(spec.name == container.name for spec in pod.spec.initContainers):
        return "init_container"
    regular = any(spec.name == container.name for spec in pod.spec.containers)
    return "container" if regular else "ephemeral_container"


def _ends_first(pod: Pod, container: Container) -> bool:
    """Return True if the pod's other containers wait until this one has ended."""
    return any(spec.name == container.name for spec in pod.spec.initContainers) and not is_sidecar(
        container
    )


class ReasonCache:
    """(reason, message) by pod UID and container name; a successful start clears it."""

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)

    def fail(self, uid: str, container: str, reason: str, message: str) -> None:
        self._reasons[uid][container] = (reason, message)

    def clear(self, uid: str, container: str) -> None:
        if uid in self._reasons:
            self._reasons[uid].pop(container, None)

    def of(self, uid: str) -> Mapping[str, tuple[str, str]]:
        return self._reasons.get(uid, {})

    def forget(self, uid: str) -> None:
        self._reasons.pop(uid, None)
