"""A controllable kubelet on a simulated engine in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from fake_host import ENGINE_ROOT, FakeHost
from kubelet_settings import default_config
from msgspec import structs
from virtual_time import VirtualClock, settle

from podtui.agent.home import home_ports
from podtui.api.names import CONFIG_HASH, CONFIG_SEEN, CONFIG_SOURCE
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    ConfigMap,
    Container,
    Event,
    Node,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Secret,
)
from podtui.errors import SessionError
from podtui.kubelet.kubelet import Kubelet
from podtui.kubelet.ports import PodNetwork, ServiceAccountTokens
from podtui.kubelet.prober.handlers import ProbeHandlers
from podtui.manifest.folder_state import Folder
from podtui.manifest.identity import seen_text, with_seen
from podtui.runtime.memory import Behaviour, MemoryEngine, MemoryRuntime, OutputLine
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerRecord,
    ContainerState,
    EngineInfo,
    SandboxRecord,
    SandboxState,
)
from podtui.store import Store, open_store

PRESENT = "busybox:1"
FOREVER = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
"""Runs until the stop signal; simulated containers do so by default."""
DEAF = 'trap "" TERM; while :; do sleep 3600 & wait $!; done'


def ends(*lines: str | OutputLine, code: int = 0, after: float = 0.0) -> Behaviour:
    return Behaviour(lines=lines, exit_after=after, exit_code=code)


def no_file(path: str) -> Behaviour:
    """Behave like ``cat`` of a missing file."""
    return ends(
        OutputLine(f"cat: can't open '{path}': No such file or directory", "stderr"), code=1
    )


SCRIPTS = {
    "true": ends(),
    "false": ends(code=1),
    "echo done": ends("done"),
    DEAF: Behaviour(ignores_term=True),
    FOREVER.replace("exit 0", "exit 143"): Behaviour(term_code=143),
    **{f"exit {code}": ends(code=code) for code in (0, 1, 2, 3, 126, 127, 134, 137, 139, 143)},
    **{f"sleep {seconds}": ends(after=seconds) for seconds in (2, 4, 5, 10, 40, 60)},
}
"""The simulated behaviour of these scripts."""


def container(name: str = "c", **fields: object) -> Container:
    """Return a container with defaults; its image is present."""
    base = {
        "image": PRESENT,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return Container(name=name, **{**base, **fields})  # type: ignore[arg-type]


def pod(
    name: str = "web-n1",
    uid: str = "",
    *containers: Container,
    init: Iterable[Container] = (),
    policy: str = "Always",
    grace: int = 30,
    namespace: str = "default",
    **spec: object,
) -> Pod:
    """Return a static pod as the manifest folder provides it."""
    uid = uid or f"uid-{name}"
    return Pod(
        apiVersion="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            annotations={CONFIG_HASH: uid, CONFIG_SOURCE: "file"},
        ),
        spec=PodSpec(
            containers=containers or (container(),),
            initContainers=tuple(init),
            restartPolicy=policy,
            terminationGracePeriodSeconds=grace,
            dnsPolicy="Default",
            nodeName="n1",
            **spec,  # type: ignore[arg-type]
        ),
        status=PodStatus(phase="Pending"),
    )


def api_pod(name: str = "web", *containers: Container, **spec: object) -> Pod:
    """Return a pod created through the API and bound to the node."""
    made = pod(name, f"uid-{name}", *containers, **spec)  # type: ignore[arg-type]
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations={}))


def _script(words: tuple[str, ...]) -> str:
    return words[2] if words[:2] == ("sh", "-c") else " ".join(words)


class LocalMemoryRuntime(MemoryRuntime):
    """A simulated engine on this machine, whose host is a `FakeHost`."""

    async def read_info(self) -> EngineInfo:
        info = await super().read_info()
        return replace(info, local=True, local_host_network=True, root_dir=ENGINE_ROOT)


class World:
    """One machine with one folder; kubelets can be stopped and started on it."""

    def __init__(
        self,
        *,
        behave: Callable[[ContainerConfig], Behaviour | None] | None = None,
        jitter: float = 0.0,
        start_delay: float = 0.0,
        pull_delay: float = 0.0,
        host: FakeHost | None = None,
        clock: VirtualClock | None = None,
        **config: object,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.behaviours: dict[str, Behaviour | Callable[[ContainerConfig], Behaviour]] = {}
        """The behaviour of containers by name or script."""
        self.commands: dict[str, Behaviour | Callable[[float], Behaviour]] = {}
        """The behaviour of commands, by command or shell script, at a given age of the
        container.
        """
        self.engine = MemoryEngine(
            clock=self.clock,
            images={PRESENT: simulated_image(PRESENT)},
            behave=behave or self._behaviour_of,
        )
        self._delays = {"start_delay": start_delay, "pull_delay": pull_delay}
        self._host = host
        self.runtime = self._new_runtime()
        self.store: Store = open_store(None, clock=self.clock)
        self.config = default_config(**{"simulated": True, **config})
        self._jitter = jitter
        self._probe_handlers: ProbeHandlers | None = None
        self.pods: dict[str, Pod] = {}
        self.folder_error = ""
        """Why the folder cannot be read."""
        self.config_maps: dict[tuple[str, str], ConfigMap] = {}
        self.secrets: dict[tuple[str, str], Secret] = {}
        self.tokens: ServiceAccountTokens | None = None
        self.network: PodNetwork | None = None
        self._changed = asyncio.Event()
        self.kubelet = self.new_kubelet()
        self._task: asyncio.Task[None] | None = None

    def _new_runtime(self) -> MemoryRuntime:
        make = MemoryRuntime if self._host is None else LocalMemoryRuntime
        return make(clock=self.clock, engine=self.engine, exec_behave=self._command, **self._delays)

    def _behaviour_of(self, config: ContainerConfig) -> Behaviour | None:
        script = _script(config.command or ())
        found = self.behaviours.get(config.name) or self.behaviours.get(script)
        return found(config) if callable(found) else found or SCRIPTS.get(script)

    def _command(self, config: ContainerConfig, words: tuple[str, ...]) -> Behaviour | None:
        found = self.commands.get(_script(words)) or SCRIPTS.get(_script(words))
        if not callable(found):
            return found
        (cell,) = [c for c in self.engine.containers.values() if c.config is config]
        return found(self.clock.monotonic() - cell.started_mono)

    def use_probes(self, handlers: ProbeHandlers) -> None:
        """Use these probe handlers in this kubelet, which must not run yet, and in later ones."""
        self._probe_handlers = handlers
        self.kubelet = self.new_kubelet()

    def new_kubelet(self) -> Kubelet:
        return Kubelet(
            runtime=self.runtime,
            ports=home_ports(self.store, self.clock, "n1", self.tokens, self.network),
            records=self.store,
            folders=self._folders(),
            clock=self.clock,
            config=self.config,
            probe_handlers=self._probe_handlers,
            host=self._host,
            jitter=lambda: self._jitter,
        )

    async def _folders(self) -> AsyncIterator[Folder]:
        while True:
            self._changed.clear()
            yield (
                Folder(error=self.folder_error)
                if self.folder_error
                else Folder(
                    pods=dict(self.pods),
                    config_maps=dict(self.config_maps),
                    secrets=dict(self.secrets),
                )
            )
            await self._changed.wait()

    # --- life

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._task = group.create_task(self.kubelet.run())
            try:
                yield self
            finally:
                self._task.cancel()

    async def stop_kubelet(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    @contextlib.asynccontextmanager
    async def running_beside(
        self, work: Callable[[], Awaitable[object]]
    ) -> AsyncIterator[asyncio.Event]:
        """Run this beside the block; the event is set when it is done."""
        done = asyncio.Event()

        async def run() -> None:
            await work()
            done.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(run())
            yield done

    async def start_kubelet(self) -> None:
        """Start another kubelet on the same engine, records and folder."""
        self.runtime = self._new_runtime()
        self.kubelet = self.new_kubelet()
        self._task = self._group.create_task(self.kubelet.run())

    # --- the folder

    def add(self, *pods: Pod) -> None:
        for one in pods:
            uid = one.metadata.uid
            before = self.pods.get(uid)
            seen = before.metadata.annotations.get(CONFIG_SEEN) if before is not None else None
            self.pods[uid] = with_seen(one, seen or seen_text(self.clock.now()))
        self._changed.set()

    def remove(self, *uids: str) -> None:
        for uid in uids:
            del self.pods[uid]
        self._changed.set()

    def config_map(self, name: str, immutable: bool | None = None, **data: str) -> None:
        """Set a ConfigMap of the folder; remove it if there is no data."""
        meta = ObjectMeta(name=name, namespace="default")
        self.config_maps.pop(("default", name), None)
        if data:
            made = ConfigMap(metadata=meta, data=data, immutable=immutable)
            self.config_maps["default", name] = made
        self._changed.set()

    def replace(self, uid: str, new: Pod) -> None:
        del self.pods[uid]
        self.add(new)

    # --- the API

    async def create(self, *pods: Pod) -> None:
        """Create API pods that are bound to this node."""
        for one in pods:
            await self.store.create("pods", one)

    async def change(self, change: Callable[[Pod], Pod], name: str = "web") -> None:
        """Change the record of a pod as an API client would."""
        await self.store.update("pods", "default", name, change)

    async def delete(self, name: str = "web", grace: int = 30) -> None:
        """Delete a pod through the API; with grace period 0, remove its record at once."""
        if grace == 0:
            await self.store.delete("pods", "default", name)
            return
        moment = rfc3339(self.clock.now() + timedelta(seconds=grace))

        def deleted(found: Pod) -> Pod:
            meta = structs.replace(
                found.metadata, deletionTimestamp=moment, deletionGracePeriodSeconds=grace
            )
            return structs.replace(found, metadata=meta)

        await self.change(deleted, name)

    # --- observation

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], bool], limit: float = 600.0) -> float:
        """Wait for a condition; return the elapsed virtual seconds."""
        began = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() - began < limit, "the condition was never met"
            await asyncio.sleep(0.05)
        await settle()
        return self.clock.monotonic() - began

    async def status(self, name: str = "web-n1", namespace: str = "default") -> PodStatus:
        record = await self.record(name, namespace)
        assert record is not None, f"no record of {name}"
        return record.status

    async def is_ready(self) -> bool:
        conditions = (await self.status()).conditions
        return next(one.status for one in conditions if one.type == "Ready") == "True"

    async def record(self, name: str = "web-n1", namespace: str = "default") -> Pod | None:
        await settle()
        found = await self.store.get("pods", namespace, name)
        assert found is None or isinstance(found, Pod)
        return found

    def shown(self, name: str = "web-n1") -> Pod | None:
        """Return the pod as the kubelet shows it, even if that is not written yet."""
        try:
            return self.kubelet.endpoints.sessions.find("default", name)
        except SessionError:
            return None

    def phase(self, name: str = "web-n1") -> str:
        found = self.shown(name)
        return "" if found is None else found.status.phase

    async def events(self, name: str = "web-n1", *reasons: str) -> list[Event]:
        await settle()
        listing = await self.store.list("events")
        found = [
            item
            for item in listing.items
            if isinstance(item, Event)
            and item.involvedObject.name == name
            and (not reasons or item.reason in reasons)
        ]
        return sorted(found, key=lambda e: int(e.metadata.name.rsplit(".", 1)[1], 16))

    async def node(self) -> Node:
        await settle()
        found = await self.store.get("nodes", "", "n1")
        assert isinstance(found, Node)
        return found

    def sandboxes(self, uid: str | None = None, *, ready: bool = True) -> list[SandboxRecord]:
        return [
            cell.record
            for cell in self.engine.sandboxes.values()
            if (uid is None or cell.record.uid == uid)
            and (not ready or cell.record.state is SandboxState.READY)
        ]

    def containers(self, uid: str | None = None, name: str | None = None) -> list[ContainerRecord]:
        """Return the containers, oldest first."""
        return [
            cell.record
            for cell in self.engine.containers.values()
            if (uid is None or cell.record.pod_uid == uid)
            and (name is None or cell.record.name == name)
        ]

    def running_containers(self, uid: str | None = None) -> list[ContainerRecord]:
        return [c for c in self.containers(uid) if c.state is ContainerState.RUNNING]

    def runs(self, uid: str, count: int = 1) -> Callable[[], bool]:
        return lambda: len(self.running_containers(uid)) == count

    def gone(self, uid: str | None = None) -> Callable[[], bool]:
        return lambda: not self.containers(uid) and not self.sandboxes(uid, ready=False)

    @property
    def calls(self) -> dict[str, int]:
        return dict(self.engine.faults.calls)


def with_env(base: Pod, uid: str) -> Pod:
    """Return an edited manifest: another UID with the same name."""
    meta = structs.replace(
        base.metadata, uid=uid, annotations={CONFIG_HASH: uid, CONFIG_SOURCE: "file"}
    )
    return structs.replace(base, metadata=meta)
