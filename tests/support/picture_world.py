"""The world of the pictures: `tui_scene` with content for every screen."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import structs
from tui_scene import (
    FOLDER,
    NOW,
    FakeClient,
    ago,
    broken,
    ended,
    full_client,
    gallery,
    manifest,
    now,
    pod,
    status,
    waiting,
)

from podtui.api.insight import (
    NetworkSeries,
    NodeInsight,
    PodInsight,
    PodStart,
    ProbeReport,
    ProbeRun,
    Step,
    StepKind,
    UsageSeries,
)
from podtui.api.local import (
    Diagnostic,
    EngineCall,
    FieldChange,
    FilePlan,
    Lack,
    Manifest,
    ManifestState,
    NodeImage,
    ObjectPlan,
    Plan,
    PlanOutcome,
    PodPlan,
    PodToRemove,
    PortHolder,
    Severity,
    WhatIf,
)
from podtui.api.v1 import ContainerPort, HTTPGetAction, ObjectMeta, Pod, Probe
from podtui.manifest.fixes import read_with_fix
from podtui.tui.commands.manifest_file import TrashedFile
from podtui.tui.commands.session import RunningForward
from podtui.tui.views.journal import JournalEntry

MIB: Final = 1 << 20
MINUTES: Final = 55

WEB: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web, tier: front}
spec:
  terminationGracePeriodSeconds: 20
  containers:
    - name: nginx
      image: nginx:1.27  # pinned until the new one is tried
      ports:
        - {name: http, containerPort: 80, hostPort: 8080}
      readinessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 5
      resources:
        requests: {cpu: 250m, memory: 128Mi}
        limits: {memory: 256Mi}
    - name: exporter
      image: busybox:1.36
      command: ["sh", "-c", "sleep 3600"]
"""


def web() -> Pod:
    """Return the gallery's ``web`` with a port and probes."""
    made = gallery()[0]
    nginx, exporter = made.spec.containers
    asks = HTTPGetAction(port="http", path="/healthz")
    nginx = structs.replace(
        nginx,
        image="nginx:1.27",
        ports=(ContainerPort(name="http", containerPort=80, hostPort=8080, protocol="TCP"),),
        readinessProbe=Probe(httpGet=asks, periodSeconds=5),
        livenessProbe=Probe(httpGet=asks, periodSeconds=10, failureThreshold=3),
    )
    return structs.replace(made, spec=structs.replace(made.spec, containers=(nginx, exporter)))


def _step(
    kind: StepKind, began: float, ended: float | None, subject: str = "", **more: Any
) -> Step:
    """Return a step; times are in seconds from the start, five hours ago."""
    end = None if ended is None else _at(ended)
    return Step(kind=kind, began=_at(began), ended=end, subject=subject, **more)


def _at(seconds: float) -> str:
    return ago(hours=5, minutes=12, seconds=-seconds)


def _start(pull: float, **more: Any) -> PodStart:
    ready = pull + 3.4
    return PodStart(
        uid="uid-web",
        began=_at(0),
        ready=_at(ready),
        steps=(
            _step(StepKind.ADMIT, 0, 0.02, note="admitted"),
            _step(StepKind.VOLUMES, 0.02, 0.05),
            _step(StepKind.SANDBOX, 0.05, 0.6),
            _step(StepKind.PULL, 0.6, 0.6 + pull, "nginx:1.27", note="67 MiB"),
            _step(StepKind.CREATE, 0.6 + pull, 0.9 + pull, "nginx"),
            _step(StepKind.RUN, 0.9 + pull, None, "nginx"),
            _step(StepKind.READY, 0.9 + pull, ready, "nginx"),
            _step(StepKind.CREATE, 0.9 + pull, 1.2 + pull, "exporter"),
            _step(StepKind.RUN, 1.2 + pull, None, "exporter"),
        ),
        **more,
    )


def _runs(*verdicts: str, output: str = "") -> tuple[ProbeRun, ...]:
    return tuple(
        ProbeRun(time=ago(seconds=5 * (len(verdicts) - n)), verdict=verdict, seconds=0.004,
                 output="" if verdict == "success" else output)
        for n, verdict in enumerate(verdicts)
    )  # fmt: skip


def _probes() -> tuple[ProbeReport, ...]:
    passes = ProbeReport(
        container="nginx", probe="Liveness", result="Success", last="Success", inRow=1870,
        threshold=3, nextIn=6.0, history=_runs(*["success"] * 20),
    )  # fmt: skip
    fails = ProbeReport(
        container="nginx", probe="Readiness", result="Success", last="Failure", inRow=2,
        threshold=3, nextIn=2.0,
        history=_runs(*["success"] * 14, "warning", "success", "failure", "failure",
                      output="HTTP probe failed with statuscode: 503"),
    )  # fmt: skip
    return passes, fails


def _times() -> tuple[float, ...]:
    return tuple(now() - 60.0 * n for n in range(MINUTES, -1, -1))


def _wave(middle: float, swing: float, pace: float = 9.0) -> tuple[float, ...]:
    """Return values that rise and fall, the same on each machine."""
    return tuple(round(middle + swing * math.sin(n / pace), 1) for n in range(MINUTES + 1))


def _usage() -> tuple[UsageSeries, ...]:
    times = _times()
    return tuple(
        UsageSeries(
            container=name,
            times=times,
            cpu=_wave(cpu, cpu / 2),
            memory=tuple(int(value) for value in _wave(memory * MIB, memory * MIB / 5, 20)),
            read=_wave(2048, 2048),
            written=_wave(90_000, 60_000, 4),
            storage=tuple(3.0 * MIB + 9000 * n for n in range(len(times))),
        )
        for name, cpu, memory in (("nginx", 85, 96), ("exporter", 12, 20))
    )


def insight() -> PodInsight:
    """Return the insight of ``web``: two starts, two probes, an hour of usage."""
    network = NetworkSeries(
        times=_times(), received=_wave(30_000, 20_000, 5), sent=_wave(400_000, 250_000, 5)
    )
    return PodInsight(
        time=now(), version="1", starts=(_start(4.1), _start(9.5, over=_at(-60))),
        probes=_probes(), usage=_usage(), network=network,
    )  # fmt: skip


def node_insight() -> NodeInsight:
    return NodeInsight(
        time=now(), version="1", times=_times(), cpu=_wave(900, 600),
        memory=tuple(int(value) for value in _wave(2 << 30, 400 << 20, 20)),
        pods=tuple(7 + n // 30 for n in range(MINUTES + 1)),
        storage=tuple(31.0 * (1 << 30) + n * (40 << 20) for n in range(MINUTES + 1)),
    )  # fmt: skip


def images() -> tuple[NodeImage, ...]:
    return (
        NodeImage(id="sha256:4f1c", names=("nginx:1.27",), sizeBytes=188 * MIB,
                  created=ago(days=40), usedBy=("default/web-n1",), collectable=True),
        NodeImage(id="sha256:a8d2", names=("busybox:1.36", "registry.example/team/busybox:1.36"),
                  sizeBytes=4 * MIB, created=ago(days=300),
                  usedBy=("default/counter-n1", "default/web-n1"), collectable=True),
        NodeImage(id="sha256:77b0", names=("registry.example/team/shop:2025-10",),
                  sizeBytes=412 * MIB, created=ago(days=12), collectable=True),
        NodeImage(id="sha256:0c9e", names=("debian:12",), sizeBytes=117 * MIB,
                  created=ago(days=70)),
    )  # fmt: skip


def calls() -> tuple[EngineCall, ...]:
    """Return the agent's engine calls, the oldest first."""
    calls = (
        (19, "create", "count", "docker create --name count --memory 32m busybox:1.36", "", 1),
        (18, "start", "count", "docker start count", "", 1),
        (12, "start", "app", "docker start app", "", 5),
        (8, "pull", "app", "docker pull registry.example/none:1",
         "manifest for registry.example/none:1 not found", 3),
    )  # fmt: skip
    pods = {"count": "counter-n1", "app": "crash-loop-n1"}
    return tuple(
        EngineCall(serial=n, time=ago(seconds=seconds), line=line, verb=verb, error=error,
                   pod=pods[container], container=container, count=count, seconds=0.3 * n)
        for n, (seconds, verb, container, line, error, count) in enumerate(calls, start=1)
    )  # fmt: skip


def journal_entries() -> tuple[JournalEntry, ...]:
    return (
        JournalEntry(now() - 95, "edit", f"$EDITOR {FOLDER}/web.yaml", "web-n1"),
        JournalEntry(
            now() - 30, "delete", f"mv {FOLDER}/old.yaml {FOLDER}/.trash/old.yaml", "old-n1"
        ),
    )


class Forwarded:
    """A port-forward with only the shown attributes."""

    def __init__(self, local: int, remote: int, problem: str = "") -> None:
        self.local_port, self.remote_port, self.problem = local, remote, problem
        self.connections, self.accepted = (0, 3) if problem else (2, 14)
        self.sent, self.received = 41_000, 2_900_000

    def close(self) -> None:
        pass


def forwards() -> tuple[RunningForward, ...]:
    refused = "connect to port 9113: connection refused"
    made = (Forwarded(8081, 80), Forwarded(9113, 9113, refused))
    return tuple(RunningForward(web(), one) for one in made)  # type: ignore[arg-type]


def trashed(folder: Path = Path(FOLDER)) -> list[TrashedFile]:
    """Put three files into the trash, one of them twice."""
    found: list[TrashedFile] = []
    for name, age in (("old.yaml", 30), ("web.yaml", 5400), ("web.yaml", 93_000)):
        moment = NOW - timedelta(seconds=age)
        kept = folder / ".trash" / f"{moment:%Y%m%dT%H%M%S.%fZ}~{name}"
        found.append(TrashedFile(kept, folder / name, moment))
    return found


NEW_IMAGE: Final = FieldChange(
    field="spec.containers[nginx].image", old="nginx:1.27", new="nginx:1.28", line=10, column=7
)
LESS: Final = FieldChange(
    field="spec.containers[nginx].resources.limits.memory", old="256Mi", new="192Mi", line=18,
    column=9,
)  # fmt: skip


def plan() -> Plan:
    """Return a plan: the pod is replaced, a ConfigMap changes, another file is a duplicate."""
    return Plan(
        metadata=ObjectMeta(name="web.yaml"),
        path=f"{FOLDER}/web.yaml",
        state=ManifestState.ACCEPTED,
        diagnostics=(
            Diagnostic(severity=Severity.WARNING, path=f"{FOLDER}/web.yaml", code="NoRequest",
                       message="without a request it is ended first where memory is short",
                       line=19, column=7, field="spec.containers[1].resources"),
        ),
        pods=(PodPlan(outcome=PlanOutcome.REPLACED, namespace="default", name="web-n1",
                      changes=(NEW_IMAGE, LESS), grace=20),),
        objects=(ObjectPlan(outcome=PlanOutcome.IN_PLACE, kind="ConfigMap", namespace="default",
                            name="pages", readers=("default/web-n1", "default/counter-n1")),),
        files=(FilePlan(name="counter.yaml", old=ManifestState.ACCEPTED,
                        new=ManifestState.INVALID, message="hostPort 8080 is taken by web"),),
    )  # fmt: skip


def ended_by_deletion() -> Plan:
    """Return the plan of a removed file."""
    gone = PodPlan(outcome=PlanOutcome.REMOVED, namespace="default", name="web-n1", grace=20)
    return Plan(metadata=ObjectMeta(name="web.yaml"), path=f"{FOLDER}/web.yaml", pods=(gone,))


def refused_plan() -> Plan:
    """Return the plan of an invalid text."""
    wrong = Diagnostic(severity=Severity.ERROR, path=f"{FOLDER}/web.yaml", code="UnknownField",
                       message='unknown field "imago"', line=10, column=7,
                       field="spec.containers[0].imago", fix='did you mean "image"?')  # fmt: skip
    return structs.replace(
        plan(), state=ManifestState.INVALID, usable=False, diagnostics=(wrong,), pods=(),
        objects=(), files=(),
    )  # fmt: skip


REFUSED: Final = WhatIf(
    metadata=ObjectMeta(name="what-if-n1", namespace="default"),
    admitted=False,
    reason="UnexpectedAdmissionError",
    message="no set of running pods found to reclaim resources: [(res: cpu, q: 850), ]",
    lacks=(Lack(resource="cpu", requested=4000, used=650, capacity=3800),),
    holders=(
        PortHolder(port=8080, protocol="TCP", namespace="default", pod="web-n1"),
        PortHolder(port=53, protocol="UDP", process="dnsmasq", pid=612),
    ),
    leave=(
        PodToRemove(namespace="default", name="web-n1", uid="u", frees={"cpu": 500}, ports=(8080,)),
    ),
    remarks=("Other programs use ports that it needs: its sandbox could not start.",),
)


HUNGRY: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: hungry
spec:
  containers:
    - name: app
      image: busybox:1.36
      command: ["sh", "-c", "tail /dev/zero"]
      resources:
        limits: {memory: 16Mi}  # was enough last year
"""


def oom_killed_pod() -> Pod:
    """Return a pod that is OOM-killed repeatedly."""
    looping = waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app")
    return pod("hungry", status("app", looping, restarts=3, last=ended(137, "OOMKilled")),
               limits={"memory": "16Mi"}, ip="172.17.0.11")  # fmt: skip


def oom_killed_manifest() -> Manifest:
    """Return its manifest with positions of fields, as provided by the agent."""
    return _placed(manifest("hungry.yaml", text=HUNGRY, pod_name="hungry-n1"))


def broken_manifest() -> Manifest:
    """Return an invalid manifest with the agent's messages, whose fix can be applied."""
    return _placed(broken())


def _placed(made: Manifest) -> Manifest:
    """Return a manifest with what the agent found in its text."""
    result = read_with_fix(made.spec.path, made.spec.text.encode(), node_name="n1")
    status = structs.replace(
        made.status, places=result.places, diagnostics=result.diagnostics, fix=result.fix
    )
    return structs.replace(made, status=status)


def web_manifest() -> Manifest:
    return manifest("web.yaml", text=WEB, pod_name="web-n1")


def world() -> FakeClient:
    """Return a client that answers every request."""
    client = full_client()
    client.change(web())
    client.change(web_manifest(), broken_manifest())
    client.insights = {"web-n1": insight()}
    client.node_answer = node_insight()
    client.image_list = images()
    client.calls = calls()
    client.answer_plan = ended_by_deletion()
    client.verdict = REFUSED
    return client
