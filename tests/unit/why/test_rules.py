"""The rules together: all are reachable, none hides another, and none fails."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec
import pytest
from cause_cases import CAUSES
from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from why_world import pod_text, spec

from podtui.api.local import Diagnostic, Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodStatus,
)
from podtui.editing.findings import is_better
from podtui.manifest.diagnose import read_manifest
from podtui.why import Facts, apply_edits, diagnose, diff_lines
from podtui.why.diagnose import AFTER, BEFORE, EACH, RUNNING
from podtui.why.node_pods import NodePods

LIFE = (Path(__file__).parent / "test_causes_life.py").read_text()
CLUSTERS = (Path(__file__).parent / "test_causes_cluster.py").read_text()
KILLS = (Path(__file__).parent / "test_kills.py").read_text()
IDS = tuple(rule.id for rules in (BEFORE, EACH, RUNNING, AFTER) for rule in rules)
GENERAL = (
    ("ImagePull", "ImageNotFound"),
    ("ContainerConfig", "RunsAsRoot"),
    ("ContainerStart", "CommandNotFound"),
    ("Fails", "Usage"),
    ("Killed", "KilledAfterGrace"),
    ("Killed", "KilledAtLimit"),
    ("KilledAfterGrace", "LivenessKilled"),
    ("VolumeFailed", "HostPathKind"),
    ("VolumeFailed", "TokenRefused"),
    ("VolumeFailed", "VolumeForbidden"),
    ("VolumeFailed", "ClaimUnbound"),
    ("VolumeFailed", "DriverMissing"),
    ("ContainerConfig", "DocumentForbidden"),
    ("Healthy", "MirrorRefused"),
    ("SandboxFailed", "SandboxPortInUse"),
    ("SandboxFailed", "RuntimeClassMissing"),
    ("Rejected", "NodeShuttingDown"),
    ("ReadinessFailing", "ReadinessRefused"),
    ("NoRoom", "TooBigForTheNode"),
    ("NodeAffinity", "NodeLabelMissing"),
)


def test_every_cause_has_a_unique_name() -> None:
    assert len(IDS) == len(set(IDS)) >= 60


def test_every_cause_occurs_in_a_test() -> None:
    shown = {cause.cause for cause in CAUSES} | set(re.findall(r'"([A-Z]\w+)"', LIFE))
    shown |= set(re.findall(r'"([A-Z]\w+)"', CLUSTERS + KILLS))
    assert set(IDS) <= shown


@pytest.mark.parametrize(("general", "special"), GENERAL)
def test_general_rules_follow_specific_ones(general: str, special: str) -> None:
    assert IDS.index(special) < IDS.index(general)


def test_every_rule_has_complete_sentences() -> None:
    for rule in (*BEFORE, *EACH, *RUNNING, *AFTER):
        assert rule.title.endswith((".", "}"))
        assert rule.docs == "" or rule.docs.startswith("https://kubernetes.io/docs/")


# --- any status of a pod

REASONS = (
    "", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "InvalidImageName",
    "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError",
    "RunContainerError", "PostStartHookError", "PodInitializing", "ContainerCreating",
    "OOMKilled", "Error", "Completed", "StartError", "ContainerStatusUnknown",
    "Evicted", "NodePorts", "NodeAffinity", "SysctlForbidden", "UnexpectedAdmissionError",
    "DeadlineExceeded", "Preempting", "AppArmor", "Terminated", "NotReason{}",
)  # fmt: skip
EVENTS = (
    "Failed", "BackOff", "Killing", "Unhealthy", "FailedMount", "FailedCreatePodSandBox",
    "FailedPostStartHook", "Pulling", "SandboxChanged",
)  # fmt: skip
TEXTS = (
    "", "{x}", "{", "\x1b[31m", "(res: cpu, q: 99999)", "exec: \"x\": executable file not found",
    "Bind for 0.0.0.0:8080 failed: port is already allocated", "ErrImagePull: denied",
    "image will run as root", 'configmap "a" not found', "couldn't find key k in ConfigMap n/a",
    "Liveness probe failed: HTTP probe failed with statuscode: 500", "missing value for A",
    "Container c failed liveness probe, will be restarted", "Stopping container c",
    'MountVolume.SetUp failed for volume "v" : hostPath type check failed: /x is not a directory',
    "Readiness probe failed: dial tcp 1.2.3.4:5: connect: connection refused", "chdir",
    'forbidden sysctl: "a.b" not allowlisted', "Minimum memory limit allowed is 6MB",
    "Startup probe failed: command timed out", "not a directory", "unable to find user x: no",
)  # fmt: skip
TIMES = st.sampled_from([None, "", "nonsense", "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"])
TEXT = st.sampled_from(TEXTS) | st.text(max_size=20)
REASON = st.sampled_from(REASONS)
STATES = st.one_of(
    st.just(ContainerState()),
    st.builds(
        ContainerState, waiting=st.builds(ContainerStateWaiting, reason=REASON, message=TEXT)
    ),
    st.builds(ContainerState, running=st.builds(ContainerStateRunning, startedAt=TIMES)),
    st.builds(
        ContainerState,
        terminated=st.builds(
            ContainerStateTerminated,
            exitCode=st.sampled_from([0, 1, 2, 126, 127, 134, 137, 139, 143, -1]),
            reason=REASON, message=TEXT, startedAt=TIMES, finishedAt=TIMES,
        ),
    ),
)  # fmt: skip
FULL = """\
initContainers:
- {name: i, image: 'a:1'}
- {name: s, image: 'a:1', restartPolicy: Always}
containers:
- name: c
  image: busybox:1
  command: [x]
  ports: [{containerPort: 80, hostPort: 8080}]
  resources: {limits: {memory: 1Mi, cpu: 1}}
  livenessProbe: {httpGet: {port: 5}}
  readinessProbe: {tcpSocket: {port: 5}}
  startupProbe: {exec: {command: [x]}}
  volumeMounts: [{name: v, mountPath: /x, subPathExpr: $(A)}]
  env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: k}}}]
volumes: [{name: v, hostPath: {path: /x, type: Directory}}]
nodeSelector: {a: b}
securityContext: {sysctls: [{name: a.b, value: c}], runAsNonRoot: true}
readinessGates: [{conditionType: a.b/c}]
"""
MANIFESTS = [spec(FULL), pod_text(), pod_text(pod="restartPolicy: Never\n")]
MANIFESTS[0] = MANIFESTS[0].replace("metadata:\n", "metadata:\n  labels: {a: b}\n")


def statuses(names: tuple[str, ...]) -> st.SearchStrategy[tuple[ContainerStatus, ...]]:
    some = st.lists(
        st.builds(
            ContainerStatus,
            name=st.sampled_from([*names, "ghost"]),
            image=TEXT, imageID=st.just(""), ready=st.booleans(),
            started=st.sampled_from([None, True, False]),
            restartCount=st.integers(0, 5), state=STATES, lastState=STATES,
        ),
        max_size=3,
    )  # fmt: skip
    return some.map(tuple)


@functools.cache
def pod_of(text: str) -> tuple[Pod, Manifest]:
    result = read_manifest("/m/web.yaml", text.encode(), node_name="n1")
    pod = result.pods[0]
    assert pod is not None
    status = ManifestStatus(state=ManifestState.ACCEPTED, places=result.places)
    manifest = Manifest(
        metadata=ObjectMeta(name="web.yaml"),
        spec=ManifestSpec(path="/m/web.yaml", text=result.text),
        status=status,
    )
    return pod, manifest


@functools.cache
def findings_of(text: str) -> tuple[Diagnostic, ...]:
    return read_manifest("/m/web.yaml", text.encode(), node_name="n1").diagnostics


EVENT = st.builds(
    Event,
    metadata=st.just(ObjectMeta(name="e")),
    involvedObject=st.sampled_from(
        [ObjectReference(), ObjectReference(fieldPath="spec.containers{c}")]
    ),
    reason=st.sampled_from(EVENTS),
    message=TEXT,
    type=st.sampled_from(["Normal", "Warning"]),
    lastTimestamp=TIMES,
)
STATUS = st.builds(
    PodStatus,
    phase=st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    reason=REASON,
    message=TEXT,
    containerStatuses=statuses(("c",)),
    initContainerStatuses=statuses(("i", "s")),
    conditions=st.lists(
        st.builds(
            PodCondition,
            type=st.sampled_from(["Ready", "Initialized", "PodReadyToStartContainers"]),
            status=st.sampled_from(["True", "False", ""]),
            reason=st.sampled_from(["", "ReadinessGatesNotReady"]),
            message=TEXT,
        ),
        max_size=3,
    ).map(tuple),
)


@pytest.mark.parametrize(
    ("why", "cause"),
    [
        ("hostPath type check failed: /x is not a directory", "HostPathKind"),
        ('configmap "conf" not found', "VolumeDocumentMissing"),
    ],
)
def test_a_volume_removed_from_the_manifest_is_not_fixed(why: str, cause: str) -> None:
    pod, manifest = pod_of(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
        "spec: {containers: [{name: c, image: 'busybox:1'}]}\n"
    )
    event = Event(
        metadata=ObjectMeta(name="e"),
        involvedObject=ObjectReference(),
        type="Warning",
        reason="FailedMount",
        message=f'MountVolume.SetUp failed for volume "v" : {why}',
    )
    pods = NodePods([pod])
    diagnosis = diagnose(
        Facts(pod=pod, now=0.0, events=(event,), manifest=manifest, node_pods=pods)
    )
    assert (diagnosis.cause, diagnosis.fixes) == (cause, ())


@examples(150, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=st.sampled_from(MANIFESTS),
    status=STATUS,
    events=st.lists(EVENT, max_size=5).map(tuple),
    logs=st.lists(TEXT, max_size=3).map(tuple),
)
def test_no_status_makes_a_rule_fail(
    text: str, status: PodStatus, events: tuple[Event, ...], logs: tuple[str, ...]
) -> None:
    pod, manifest = pod_of(text)
    pod = msgspec.structs.replace(pod, status=status)
    facts = Facts(
        pod=pod,
        now=1767323105.0,
        events=events,
        manifest=manifest,
        node_pods=NodePods([pod]),
        logs={"c": logs},
    )
    diagnosis = diagnose(facts)
    assert diagnosis.cause in IDS
    assert diagnosis.title
    for fix in diagnosis.fixes:
        if fix.line is not None:
            continue
        assert diff_lines(text, fix.edits)
        after = apply_edits(text, fix.edits)
        assert after != text
        new = read_manifest("/m/web.yaml", after.encode(), node_name="n1").diagnostics
        assert is_better(findings_of(text), new), (fix.title, new)
