"""Objects for screens to show, and a client that a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from repository import ROOT

from podtui.api.insight import (
    AT_ONCE,
    ConnectionCheck,
    InsightQuery,
    NodeInsight,
    PodInsight,
    ProbeRun,
)
from podtui.api.local import (
    ContainerMetrics,
    Diagnostic,
    EngineCall,
    Manifest,
    ManifestSpec,
    ManifestState,
    ManifestStatus,
    NodeImage,
    NodeMetrics,
    Plan,
    PodMetrics,
    PrunedImages,
    PullStep,
    Severity,
    WhatIf,
)
from podtui.api.names import MANIFEST_PATH
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    EventSource,
    Node,
    NodeCondition,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from podtui.client.any_kind import AnyObject, ServedKind, TableRow
from podtui.client.protocol import Changed, Delta, LogQuery, Lost, Removed, Synced
from podtui.errors import ApiError

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
FOLDER = "/srv/static_pods"
THEMES = ROOT / "themes"


def ago(**length: float) -> str:
    return (NOW - timedelta(**length)).isoformat().replace("+00:00", "Z")


def now() -> float:
    return NOW.timestamp()


RUNNING = ContainerState(running=ContainerStateRunning(startedAt=ago(minutes=3)))


def waiting(reason: str, message: str = "") -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))


def ended(code: int, reason: str = "", **length: float) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exitCode=code,
            reason=reason or ("Completed" if code == 0 else "Error"),
            finishedAt=ago(**length) if length else ago(seconds=12),
        )
    )


def status(
    name: str = "app",
    state: ContainerState = RUNNING,
    *,
    ready: bool | None = None,
    restarts: int = 0,
    last: ContainerState | None = None,
    image: str = "busybox:1.36",
) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        image=image,
        imageID="sha256:1",
        containerID=f"docker://{name}{restarts}",
        ready=state.running is not None if ready is None else ready,
        started=state.running is not None,
        restartCount=restarts,
        state=state,
        lastState=last or ContainerState(),
    )


def pod(
    name: str,
    *statuses: ContainerStatus,
    phase: str = "Running",
    init: Iterable[ContainerStatus] = (),
    uid: str = "",
    age: timedelta = timedelta(minutes=3, seconds=10),
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    ip: str = "172.17.0.2",
    deleted: bool = False,
    reason: str = "",
    message: str = "",
    labels: dict[str, str] | None = None,
    initialized: bool = True,
    version: str = "1",
    containers: tuple[str, ...] = (),
) -> Pod:
    init = tuple(init)
    names = containers or tuple(s.name for s in statuses) or ("app",)
    ready = bool(statuses) and all(s.ready for s in statuses)
    conditions = () if reason and not statuses else (
        PodCondition(type="Initialized", status="True" if initialized else "False"),
        PodCondition(type="Ready", status="True" if ready else "False",
                     reason="" if ready else "ContainersNotReady",
                     message="" if ready else f"containers with unready status: [{names[0]}]"),
    )  # fmt: skip
    return Pod(
        metadata=ObjectMeta(
            name=f"{name}-n1",
            namespace="default",
            uid=uid or f"uid-{name}",
            creationTimestamp=(NOW - age).isoformat().replace("+00:00", "Z"),
            deletionTimestamp=ago(seconds=1) if deleted else None,
            labels=labels or {"app": name},
            annotations={MANIFEST_PATH: f"{FOLDER}/{name}.yaml"},
            resourceVersion=version,
        ),
        spec=PodSpec(
            nodeName="n1",
            restartPolicy="Always",
            initContainers=tuple(Container(name=s.name, image=s.image) for s in init),
            containers=tuple(
                Container(
                    name=n,
                    image="busybox:1.36",
                    command=("sh", "-c", "sleep 3600"),
                    resources=ResourceRequirements(requests=requests or {}, limits=limits or {}),
                )
                for n in names
            ),
        ),
        status=PodStatus(
            phase=phase,
            podIP=ip,
            hostIP="192.0.2.7",
            qosClass="Burstable",
            startTime=ago(minutes=3),
            containerStatuses=statuses,
            initContainerStatuses=init,
            conditions=conditions,
            reason=reason,
            message=message,
        ),
    )


REJECTED = (
    "Pod was rejected: Unexpected error while attempting to recover from admission failure:"
    " preemption: error finding a set of pods to preempt: no set of running pods found to reclaim"
    " resources: [(res: cpu, q: 62000), ]"
)


def gallery() -> tuple[Pod, ...]:
    """Return one pod of each relevant kind."""
    last = ended(1, seconds=12)
    return (
        pod("web", status("nginx", image="nginx:1.27"), status("exporter"), ip="172.17.0.3",
            requests={"cpu": "250m", "memory": "128Mi"}, limits={"memory": "256Mi"},
            age=timedelta(hours=5, minutes=12)),
        pod("counter", status("count"), requests={"cpu": "100m", "memory": "32Mi"},
            age=timedelta(days=2, hours=4), ip="172.17.0.4"),
        pod("crash-loop",
            status("app", waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app"
                   " pod=crash-loop-n1_default(uid-crash-loop)"), restarts=4, last=last),
            requests={"cpu": "50m"}, ip="172.17.0.5"),
        pod("no-such-image", status("app", waiting("ImagePullBackOff",
            'Back-off pulling image "registry.example/none:1": ErrImagePull: not found')),
            phase="Pending", ip="172.17.0.6", age=timedelta(minutes=1)),
        pod("pipeline", status("main", waiting("PodInitializing")), phase="Pending",
            init=(status("fetch", ended(0)), status("unpack", RUNNING, ready=False)),
            initialized=False, age=timedelta(seconds=21), ip="172.17.0.7"),
        pod("batch", status("job", ended(0, minutes=2)), phase="Succeeded",
            age=timedelta(minutes=4), ip="172.17.0.8"),
        pod("slow-start", status("app", ready=False), ip="172.17.0.9",
            requests={"memory": "512Mi"}, age=timedelta(seconds=40)),
        pod("leaving", status("app"), deleted=True, ip="172.17.0.10"),
        pod("too-big", phase="Failed", reason="UnexpectedAdmissionError", message=REJECTED, ip="",
            requests={"cpu": "64"}, age=timedelta(seconds=9)),
    )  # fmt: skip


BROKEN = """\
apiVersion: v1
kind: Pod
metadata:
  name: hello
spec:
  terminationGracePeriodSeconds: 3
  containers:
    - name: app
      imago: busybox:1.36
"""


def manifest(
    name: str,
    state: ManifestState = ManifestState.ACCEPTED,
    *diagnostics: Diagnostic,
    message: str = "",
    text: str = BROKEN,
    pod_name: str = "",
) -> Manifest:
    return Manifest(
        metadata=ObjectMeta(name=name, uid=f"m-{name}"),
        spec=ManifestSpec(path=f"{FOLDER}/{name}", text=text),
        status=ManifestStatus(
            state=state,
            message=message,
            podNamespace="default" if pod_name else "",
            podName=pod_name,
            diagnostics=diagnostics,
        ),
    )


def broken(name: str = "hello.yaml", state: ManifestState = ManifestState.INVALID) -> Manifest:
    return manifest(
        name,
        state,
        Diagnostic(
            severity=Severity.ERROR, path=f"{FOLDER}/{name}", code="UnknownField",
            message='unknown field "imago"', line=9, column=7,
            field="spec.containers[0].imago", fix="image",
        ),
    )  # fmt: skip


def manifests() -> tuple[Manifest, ...]:
    return (
        broken(),
        manifest("web.yaml.bak", ManifestState.IGNORED, message="an editor's backup", text=""),
        *(manifest(f"{p.metadata.name[:-3]}.yaml", pod_name=p.metadata.name) for p in gallery()),
    )


def event(
    about: str,
    reason: str,
    message: str,
    *,
    warning: bool = False,
    count: int = 1,
    seen: float = 10,
    version: int = 1,
    container: str = "",
    name: str = "",
) -> Event:
    return Event(
        metadata=ObjectMeta(
            name=name or f"{about}.{reason}.{version}",
            namespace="default",
            resourceVersion=str(version),
        ),
        involvedObject=ObjectReference(
            kind="Pod",
            name=f"{about}-n1",
            namespace="default",
            fieldPath=f"spec.containers{{{container}}}" if container else "",
        ),
        reason=reason,
        message=message,
        type="Warning" if warning else "Normal",
        count=count,
        firstTimestamp=ago(seconds=seen + 60),
        lastTimestamp=ago(seconds=seen),
        source=EventSource(component="kubelet", host="n1"),
    )


def events() -> tuple[Event, ...]:
    return (
        event("web", "Pulled", 'Container image "nginx:1.27" already present on machine',
              seen=18700, version=1, container="nginx"),
        event("web", "Created", "Created container: nginx", seen=18699, version=2,
              container="nginx"),
        event("web", "Started", "Started container nginx", seen=18699, version=3,
              container="nginx"),
        event("crash-loop", "BackOff", "Back-off restarting failed container app in pod"
              " crash-loop-n1_default(uid-crash-loop)", warning=True, count=7, seen=8, version=20,
              container="app"),
        event("no-such-image", "Failed", 'Failed to pull image "example.test/none:1": not found',
              warning=True, count=3, seen=15, version=18, container="app"),
        event("slow-start", "Unhealthy", "Readiness probe failed: HTTP probe failed with"
              " statuscode: 503", warning=True, count=4, seen=3, version=21, container="app"),
        event("pipeline", "Started", "Started container unpack", seen=19, version=16,
              container="unpack"),
        event("pipeline", "Created", "Created container: unpack", seen=19, version=15,
              container="unpack"),
        event("leaving", "Killing", "Stopping container app", seen=1, version=22, container="app"),
        event("too-big", "UnexpectedAdmissionError", REJECTED.removeprefix("Pod was rejected: "),
              warning=True, seen=9, version=19),
    )  # fmt: skip


def node(*, ready: bool = True) -> Node:
    return Node(
        metadata=ObjectMeta(name="n1", uid="n1"),
        status=NodeStatus(
            capacity={"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"},
            allocatable={
                "cpu": "3800m", "memory": "7680Mi", "pods": "110", "ephemeral-storage": "90Gi",
            },
            conditions=(
                NodeCondition(
                    type="Ready", status="True" if ready else "False",
                    reason="KubeletReady" if ready else "KubeletNotReady",
                    message="kubelet is posting ready status" if ready
                    else "container runtime is down: Cannot connect to the Docker daemon",
                ),
            ),
            nodeInfo=NodeSystemInfo(
                architecture="amd64", bootID="b", containerRuntimeVersion="docker://20.10.24",
                kernelVersion="6.1.0", kubeProxyVersion="", kubeletVersion="v1.36.0",
                machineID="m", operatingSystem="linux", osImage="Debian GNU/Linux 12",
                systemUUID="s",
            ),
        ),
    )  # fmt: skip


def usage(name: str, cpu: str, memory: str) -> PodMetrics:
    return PodMetrics(
        metadata=ObjectMeta(name=f"{name}-n1", namespace="default"),
        timestamp=ago(seconds=1),
        window="10s",
        containers=(ContainerMetrics(name="app", usage={"cpu": cpu, "memory": memory}),),
    )


LOG = [
    f"2026-11-21T11:59:{n:02d}.123456789Z {text}".encode()
    for n, text in enumerate(
        [
            "listening on :8080",
            "GET /healthz 200 1ms",
            "GET / 200 12ms",
            "\x1b[33mWARN\x1b[0m slow upstream (312 ms)",
            "GET /favicon.ico 404 0ms",
            "\x1b[31mERROR\x1b[0m upstream timed out after 30s: GET /api/v1/orders?page=2",
            "retrying (1 of 3)",
            "GET /api/v1/orders?page=2 200 48ms",
        ]
    )
]


class FakeClient:
    """Returns the contents of its queues; logs by container name."""

    target = "unix:/run/podtui.sock"

    def __init__(self) -> None:
        self.queues: dict[type, asyncio.Queue[Delta]] = {}
        self.log_lines: dict[str, list[bytes]] = {}
        self.log_errors: dict[str, str] = {}
        self.queries: list[tuple[str, LogQuery]] = []
        self.usages: tuple[PodMetrics, ...] = ()
        self.node_use: NodeMetrics | None = None
        self.retried: list[str] = []
        self.what_if_requests: list[bytes] = []
        self.verdict = WhatIf(metadata=ObjectMeta(name="what-if-n1"), admitted=True)
        self.image_list: tuple[NodeImage, ...] = ()
        self.images_removed: list[str] = []
        self.images_kept: tuple[str, ...] = ()
        self.images_pulled: list[str] = []
        self.pull_steps: asyncio.Queue[PullStep] = asyncio.Queue()
        self.insights: dict[str, PodInsight] = {}
        self.insight_queries: list[InsightQuery] = []
        self.insight_changed = asyncio.Event()
        self.node_answer: NodeInsight | None = None
        self.probed: list[tuple[str, str, str]] = []
        self.checked: list[tuple[str, str, int]] = []
        self.connection_checks: dict[tuple[str, int], ConnectionCheck] = {}
        """The answers by host and port; others cannot be asked."""
        self.restarted: list[tuple[str, str]] = []
        self.calls: tuple[EngineCall, ...] = ()
        self.planned: list[tuple[str, bytes | None]] = []
        self.answer_plan: Plan | None = None
        self.served: dict[ServedKind, tuple[tuple[TableRow, ...], tuple[AnyObject, ...]]] = {}
        """The rows of the Table and the objects of each kind."""

    async def kinds(self) -> tuple[ServedKind, ...]:
        return tuple(self.served)

    async def count(self, kind: ServedKind, namespace: str = "") -> int:
        return len(self.served[kind][0])

    async def follow_table(self, kind: ServedKind, namespace: str = "") -> AsyncIterator[Delta]:
        yield Synced(self.served[kind][0])
        await asyncio.Event().wait()

    async def follow_objects(
        self, kind: ServedKind, namespace: str = "", name: str = ""
    ) -> AsyncIterator[Delta]:
        items = self.served[kind][1]
        yield Synced(tuple(item for item in items if name in ("", item.metadata.name)))
        await asyncio.Event().wait()

    def send(self, kind: type, delta: Delta) -> None:
        self.queues.setdefault(kind, asyncio.Queue()).put_nowait(delta)

    def fill(
        self,
        pods: Iterable[Pod] = (),
        events: Iterable[Event] = (),
        manifests: Iterable[Manifest] = (),
        nodes: Iterable[Node] = (),
    ) -> None:
        self.send(Node, Synced(tuple(nodes)))
        self.send(Pod, Synced(tuple(pods)))
        self.send(Event, Synced(tuple(events)))
        self.send(Manifest, Synced(tuple(manifests)))

    def change(self, *items: Any) -> None:
        self.send(type(items[0]), Changed(tuple(items)))

    def remove(self, *items: Any) -> None:
        self.send(type(items[0]), Removed(tuple(items)))

    def disconnect(self, reason: str) -> None:
        for kind in (Node, Pod, Event, Manifest):
            self.send(kind, Lost(reason))

    async def follow(self, kind: Any, namespace: str = "") -> AsyncIterator[Delta]:
        queue = self.queues.setdefault(kind, asyncio.Queue())
        while True:
            yield await queue.get()

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        raise ApiError(404, "NotFound", f"{name} not found")

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        self.queries.append((pod, query))
        error = self.log_errors.get(query.container)
        if error:
            raise ApiError(400, "BadRequest", error)
        lines = self.log_lines.get(query.container, LOG)
        yield lines if query.timestamps else [line.partition(b" ")[2] for line in lines]
        if query.follow:
            await asyncio.Event().wait()

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return self.usages

    async def node_metrics(self) -> NodeMetrics | None:
        return self.node_use

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        self.insight_queries.append(query)
        if pod not in self.insights:
            raise ApiError(404, "NotFound", f"{pod} not found")
        if query.seen == self.insights[pod].version:
            async with asyncio.timeout(query.wait):
                await self.insight_changed.wait()
            self.insight_changed.clear()
        return self.insights[pod]

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        if self.node_answer is None:
            raise ApiError(404, "NotFound", "the node has no insight")
        if query.seen == self.node_answer.version:
            async with asyncio.timeout(query.wait):
                await self.insight_changed.wait()
        return self.node_answer

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        self.probed.append((pod, container, probe))
        return ProbeRun(time=ago(), verdict="failure", seconds=0.01, output="asked by hand")

    async def check_connection(
        self, namespace: str, pod: str, host: str, port: int = 0
    ) -> ConnectionCheck:
        self.checked.append((pod, host, port))
        answer = self.connection_checks.get((host, port))
        if answer is None:
            raise ApiError(409, "Conflict", "the pod has no running sandbox")
        return answer

    async def version(self) -> str:
        return "v1.36.0+podtui-0"

    async def retry(self, namespace: str, pod: str) -> None:
        self.retried.append(pod)

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        self.restarted.append((pod, container))

    async def what_if(self, manifest: bytes) -> WhatIf:
        self.what_if_requests.append(manifest)
        return self.verdict

    async def images(self) -> tuple[NodeImage, ...]:
        return self.image_list

    async def remove_image(self, image_id: str) -> None:
        self.images_removed.append(image_id)
        self.image_list = tuple(one for one in self.image_list if one.id != image_id)

    async def prune_images(self, ids: Sequence[str]) -> PrunedImages:
        gone = tuple(one for one in self.image_list if one.id in ids and not one.users)
        self.image_list = tuple(one for one in self.image_list if one not in gone)
        return PrunedImages(
            removed=tuple(one.names[0] for one in gone),
            sizeBytes=sum(one.sizeBytes for one in gone),
            kept=self.images_kept,
        )

    async def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        self.images_pulled.append(image)
        while True:
            step = await self.pull_steps.get()
            if step.error:
                raise ApiError(500, "ErrImagePull", step.error)
            yield step
            if step.image is not None:
                self.image_list = (*self.image_list, step.image)
                return

    async def plan(self, name: str, text: bytes | None) -> Plan:
        self.planned.append((name, text))
        if isinstance(self.answer_plan, Plan):
            return self.answer_plan
        raise ApiError(400, "BadRequest", f"{name} is not planned")

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        return tuple(call for call in self.calls if not uid or call.uid == uid)

    async def close(self) -> None:
        pass


def full_client() -> FakeClient:
    client = FakeClient()
    client.usages = (
        usage("web", "85m", "96Mi"),
        usage("counter", "12m", "3Mi"),
        usage("slow-start", "1m", "500Mi"),
        usage("crash-loop", "0", "0"),
    )
    client.node_use = NodeMetrics(
        metadata=ObjectMeta(name="n1"), timestamp=ago(seconds=1), window="10s",
        usage={"cpu": "410m", "memory": "2300Mi"},
    )  # fmt: skip
    client.fill(gallery(), events(), manifests(), (node(),))
    return client
