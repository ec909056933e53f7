"""Create pod sandboxes and report failures (reference §6.4 step 4)."""

from __future__ import annotations

from podtui.api.v1 import Pod
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.containers.starter import StartFailure
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.pleg.pleg import Pleg
from podtui.kubelet.sandbox.resolver import Resolvers
from podtui.kubelet.sandbox.sandbox_config import sandbox_config
from podtui.kubelet.volumes.volume_manager import VolumeManager
from podtui.runtime.protocol import EngineInfo, Runtime, SandboxStatus


class SandboxMaker:
    """Creates sandboxes with one runtime call each, and records the events."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        resolvers: Resolvers,
        volumes: VolumeManager,
        events: EventRecorder,
        pleg: Pleg,
        config: KubeletConfig,
    ) -> None:
        self._runtime = runtime
        self._resolvers = resolvers
        self._volumes = volumes
        self._events = events
        self._pleg = pleg
        self._config = config

    async def make(
        self, pod: Pod, attempt: int, engine: EngineInfo
    ) -> SandboxStatus | StartFailure:
        """Create the sandbox, or return why it failed. Raises `EngineUnavailable`."""
        try:
            config = sandbox_config(
                pod,
                attempt=attempt,
                dns=await self._resolvers.resolver_of(pod, engine),
                cluster_domain=self._config.cluster_domain,
                volumes=self._volumes.directories(pod.metadata.uid),
            )
            started = await self._runtime.run_sandbox(config)
        except EngineUnavailable:
            raise
        except (EngineError, ConfigError) as error:
            text = f"Failed to create pod sandbox: {error}"
            self._events.pod(pod, WARNING, "FailedCreatePodSandBox", text)
            return StartFailure("CreatePodSandboxError", str(error))
        if started.warnings:
            self._events.pod(pod, WARNING, "Degraded", "; ".join(started.warnings))
        try:
            status = await self._runtime.sandbox_status(started.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            text = f"Unable to get pod sandbox status: {error}"
            self._events.pod(pod, WARNING, "FailedPodSandBoxStatus", text)
            return StartFailure("FailedPodSandBoxStatus", str(error))
        self._pleg.note_sandbox(status)
        if attempt == 0:
            self._volumes.made(pod.metadata.uid, started.id)
        return status

    async def check_config(self, pod: Pod, engine: EngineInfo) -> StartFailure | None:
        """Build the resolver configuration again, as a kubelet does in each sync, to record its
        events."""
        try:
            await self._resolvers.resolver_of(pod, engine)
        except ConfigError as error:
            return StartFailure("ConfigPodSandboxError", str(error))
        return None
