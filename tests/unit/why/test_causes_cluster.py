"""Causes that occur only in clusters: pods that are not scheduled yet."""

from __future__ import annotations

import pytest
from msgspec import structs
from served import node, pod

from podtui.api.names import CONFIG_SOURCE, MANIFEST_PATH, MIRROR_PROBLEM
from podtui.api.pods import NEVER_STARTED
from podtui.api.times import epoch
from podtui.api.v1 import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    LabelSelector,
    NodeCondition,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    TopologySpreadConstraint,
    Volume,
)
from podtui.why import Diagnosis, Facts, Health, Kind, diagnose
from podtui.why.node_pods import NodePods

SHORT = "0/3 nodes are available: 3 Insufficient cpu. preemption: not helpful."


def diagnosed(
    reason: str, message: str = "", *, node: str = "", phase: str = "Pending"
) -> Diagnosis:
    condition = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(
            containers=(Container(name="c", image="a:1"),),
            nodeName=node,
            schedulingGates=(PodSchedulingGate(name="example.com/quota"),),
        ),
        status=PodStatus(phase=phase, conditions=(condition,)),
    )
    event = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason="FailedScheduling",
        message=SHORT,
        type="Warning",
        count=4,
    )
    return diagnose(Facts(pod=waits, now=0.0, events=(event,)))


def test_no_node_fits() -> None:
    diagnosis = diagnosed("Unschedulable", SHORT)
    assert (diagnosis.cause, diagnosis.health) == ("Unschedulable", Health.PENDING)
    # Only the event contains the result of the preemption.
    assert diagnosis.title == "No node fits: 0/3 nodes are available: 3 Insufficient cpu."
    assert diagnosis.advice == "Lower its cpu request, or add a node."
    assert [evidence.text for evidence in diagnosis.evidence] == [f"FailedScheduling: {SHORT}"]


def pending(reasons: str, *others: Pod, **fields: object) -> Diagnosis:
    """The diagnosis of a pod that the node ``home`` refuses for these reasons."""
    text = f"0/1 nodes are available: {reasons}. no new claims to deallocate, preemption: none."
    wait = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=text)
    containers = fields.pop("containers", (Container(name="c", image="a:1"),))
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=containers, **fields),  # type: ignore[arg-type]
        status=PodStatus(phase="Pending", conditions=(wait,)),
    )
    home = node("home")
    taints = (Taint(key="only", value="some", effect="NoSchedule"),)
    home = structs.replace(
        home,
        spec=structs.replace(home.spec, taints=taints),
        status=structs.replace(home.status, allocatable={"memory": "4Gi", "cpu": "2"}),
    )
    return diagnose(Facts(pod=waits, now=0.0, node=home, node_pods=NodePods(others)))


def asking(name: str, memory: str) -> Container:
    return Container(
        name=name, image="a:1", resources=ResourceRequirements(requests={"memory": memory})
    )


def test_a_request_is_compared_with_the_node_and_the_other_pods() -> None:
    heavy = structs.replace(pod("heavy"), spec=PodSpec(containers=(asking("c", "3Gi"),)))
    diagnosis = pending("1 Insufficient memory", heavy, containers=(asking("c", "2Gi"),))
    assert diagnosis.sentences[0] == (
        "It requests 2Gi of memory; the node has 4Gi. Other pods request: heavy 3Gi."
    )
    assert diagnosis.field == "spec.containers[0].resources.requests.memory"
    assert diagnosis.advice == "Lower its memory request, or delete other pods."
    diagnosis = pending("1 Insufficient memory", heavy, containers=(asking("c", "5Gi"),))
    assert diagnosis.sentences[0] == "It requests 5Gi of memory; the node has 4Gi."
    assert diagnosis.advice == "Lower its memory request."


def test_a_device_that_the_only_node_does_not_have() -> None:
    gpu = Container(
        name="c", image="a:1", resources=ResourceRequirements(requests={"nvidia.com/gpu": "1"})
    )
    diagnosis = pending("1 Insufficient nvidia.com/gpu", containers=(gpu,))
    assert diagnosis.sentences[0] == "The node home has no nvidia.com/gpu."
    expected = "Remove its nvidia.com/gpu request, or run the pod on a machine with that resource."
    assert diagnosis.advice == expected


def test_a_port_names_its_holder() -> None:
    def using(port: int) -> tuple[Container, ...]:
        ports = (ContainerPort(containerPort=80, hostPort=port, protocol="TCP"),)
        return (Container(name="c", image="a:1", ports=ports),)

    holder = structs.replace(pod("holder"), spec=PodSpec(containers=using(8080)))
    reasons = "1 node(s) didn't have free ports for the requested pod ports"
    diagnosis = pending(reasons, holder, containers=using(8080))
    assert diagnosis.sentences[0] == "TCP 8080 is used by holder."
    assert diagnosis.field == "spec.containers[0].ports[0].hostPort"


def test_a_node_without_the_label_of_a_spread_constraint_is_to_be_labelled() -> None:
    spread = TopologySpreadConstraint(
        maxSkew=1,
        topologyKey="zone",
        whenUnsatisfiable="DoNotSchedule",
        labelSelector=LabelSelector(),
    )
    reasons = "1 node(s) didn't match pod topology spread constraints (missing required label)"
    diagnosis = pending(reasons, topologySpreadConstraints=(spread,))
    assert "kubectl label node home zone=VALUE." in diagnosis.advice


@pytest.mark.parametrize(
    ("reasons", "field", "advice"),
    [
        ("1 Too many pods", "spec", "Delete other pods, or raise maxPods of the node."),
        ("1 node(s) were unschedulable", "spec.tolerations", "kubectl uncordon home"),
        ("1 node(s) had untolerated taint(s)", "spec.tolerations", "kubectl taint node home KEY-"),
        ("1 node(s) didn't match Pod's node affinity/selector", "spec.nodeSelector",
         "kubectl label node home disk=ssd"),
        ("1 node(s) didn't match pod affinity rules", "spec.affinity.podAffinity", "Create the"),
        ("1 node(s) didn't match pod anti-affinity rules", "spec.affinity.podAntiAffinity",
         "Delete the pods"),
        ("1 node(s) didn't match pod topology spread constraints",
         "spec.topologySpreadConstraints", "ScheduleAnyway"),
        (
            'persistentvolumeclaim "data" not found',
            "spec.volumes",
            "Create the claim, or use another volume type.",
        ),
        ("1 node(s) are on strike", "spec", "Lower the requests"),
    ],
)  # fmt: skip
def test_each_reason_has_its_remedy(reasons: str, field: str, advice: str) -> None:
    diagnosis = pending(reasons, nodeSelector={"disk": "ssd"})
    assert diagnosis.title == f"No node fits: 0/1 nodes are available: {reasons}."
    assert diagnosis.field == field
    assert advice in diagnosis.advice


def test_several_reasons_have_their_remedies_together() -> None:
    diagnosis = pending("1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Too many pods")
    assert "cpu request" in diagnosis.advice
    assert "example.com/gpu request" in diagnosis.advice
    assert "maxPods" in diagnosis.advice


def test_what_the_node_lacks_is_named() -> None:
    diagnosis = pending(
        "1 node(s) didn't match Pod's node affinity/selector", nodeSelector={"disk": "ssd"}
    )
    assert diagnosis.sentences[0] == "The node home has no label disk=ssd."
    diagnosis = pending("1 node(s) had untolerated taint(s)")
    assert diagnosis.sentences[0] == "The node home has the taints only:NoSchedule."


# --- pods of an API


def ended(reason: str = "", message: str = "", **fields: object) -> Pod:
    made, scheduled = pod("web"), PodCondition(type="PodScheduled", status="True")
    return structs.replace(
        made,
        metadata=structs.replace(made.metadata, annotations={}, **fields),  # type: ignore[arg-type]
        spec=structs.replace(made.spec, volumes=(Volume(name="v"),)),
        status=PodStatus(phase="Failed", reason=reason, message=message, conditions=(scheduled,)),
    )


def test_a_finalizer_keeps_the_record_of_a_deleted_pod() -> None:
    web = ended(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=("example.com/hold",))
    diagnosis = diagnose(Facts(pod=web, now=0.0))
    assert (diagnosis.cause, diagnosis.kind) == ("HeldByFinalizers", Kind.TERMINATION)
    assert diagnosis.title.endswith("finalizers keep its record: example.com/hold.")
    assert diagnosis.field == "metadata.finalizers"
    command = """kubectl patch pod web -n default -p '{"metadata":{"finalizers":null}}'"""
    assert diagnosis.advice.endswith(command)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ('Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
         "spec.volumes[0].emptyDir.sizeLimit"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
         "spec.containers"),
        ('Container c exceeded its local ephemeral storage limit "1Mi". ',
         "spec.containers[0].resources.limits.ephemeral-storage"),
    ],
)  # fmt: skip
def test_a_limit_of_storage_is_named(message: str, field: str) -> None:
    web = ended("Evicted", message)
    diagnosis = diagnose(Facts(pod=web, now=0.0))
    assert (diagnosis.cause, diagnosis.title) == (
        "StorageLimit",
        f"It was evicted: {message.strip()}",
    )
    assert diagnosis.field == field


def test_a_missing_config_map_of_an_api_pod_is_created_through_the_api() -> None:
    waiting = ContainerStateWaiting(
        reason="CreateContainerConfigError", message='configmap "settings" not found'
    )
    web = ended()
    status = container(ContainerState(waiting=waiting))
    status = structs.replace(status, name=web.spec.containers[0].name)
    web = structs.replace(web, status=PodStatus(phase="Pending", containerStatuses=(status,)))
    diagnosis = diagnose(Facts(pod=web, now=0.0))
    assert diagnosis.title.endswith("needs the ConfigMap settings, which does not exist.")
    assert diagnosis.advice.startswith("Create that ConfigMap in the pod's namespace")


def test_a_gate_is_named() -> None:
    diagnosis = diagnosed(
        "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
    )
    assert diagnosis.cause == "SchedulingGated"
    assert diagnosis.title == "It waits for its scheduling gates: example.com/quota."


@pytest.mark.parametrize(
    ("annotations", "cause"),
    [
        ({CONFIG_SOURCE: "file"}, "NodeLost"),
        ({CONFIG_SOURCE: "file", MANIFEST_PATH: "/pods/web.yaml"}, "EngineLost"),
    ],
)
def test_a_removed_node(annotations: dict[str, str], cause: str) -> None:
    gone = NodeCondition(type="Ready", status="Unknown", message="Kubelet stopped posting.")
    home = structs.replace(node("n1"), status=structs.replace(node().status, conditions=(gone,)))
    web = pod("web")
    web = structs.replace(web, metadata=structs.replace(web.metadata, annotations=annotations))
    diagnosis = diagnose(Facts(pod=web, now=0.0, node=home))
    assert diagnosis.cause == cause
    assert "Kubelet stopped posting" in diagnosis.title


@pytest.mark.parametrize("more", [{"node": "n1"}, {"phase": "Failed"}])
def test_a_bound_pod_is_not_diagnosed_by_its_scheduling(more: dict[str, str]) -> None:
    assert diagnosed("Unschedulable", SHORT, **more).cause != "Unschedulable"


def container(state: ContainerState, last: ContainerState | None = None) -> ContainerStatus:
    return ContainerStatus(
        name="c", image="a:1", imageID="", ready=state.running is not None, restartCount=1,
        state=state, lastState=last or ContainerState(),
    )  # fmt: skip


def began(minute: int) -> ContainerState:
    return ContainerState(running=ContainerStateRunning(startedAt=f"2026-01-01T00:{minute:02}:00Z"))


def fell(minute: int) -> ContainerState:
    when = f"2026-01-01T00:{minute:02}:00Z"
    return ContainerState(
        terminated=ContainerStateTerminated(exitCode=3, startedAt=when, finishedAt=when)
    )


def never_started(minute: int) -> ContainerState:
    ended = fell(minute).terminated
    assert ended is not None
    return ContainerState(terminated=structs.replace(ended, exitCode=128, startedAt=NEVER_STARTED))


BACK_OFF = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))


@pytest.mark.parametrize(
    ("statuses", "cause"),
    [
        ((), "SandboxFailed"),
        ((container(ContainerState()),), "SandboxFailed"),
        ((container(BACK_OFF, fell(1)),), "SandboxFailed"),
        ((container(BACK_OFF, fell(9)),), "Fails"),
        ((container(fell(9)),), "Fails"),
        ((container(never_started(9)),), "Fails"),
        ((container(began(1)),), "Healthy"),
        ((container(began(9)),), "Healthy"),
    ],
)
def test_a_kubelet_before_1_29_reports_no_sandbox_condition(
    statuses: tuple[ContainerStatus, ...], cause: str
) -> None:
    """Observed with v1.20: the event of a failed sandbox outlives the failure."""
    failed = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason="FailedCreatePodSandBox",
        message="Failed to create pod sandbox: no pid",
        type="Warning",
        lastTimestamp="2026-01-01T00:05:00Z",
    )
    runs = any(status.ready for status in statuses)
    web = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),), nodeName="n1"),
        status=PodStatus(
            phase="Running" if runs else "Pending",
            conditions=(PodCondition(type="Ready", status=str(runs)),),
            containerStatuses=statuses,
        ),
    )
    now = epoch("2026-01-01T00:10:00Z")
    assert now is not None
    assert diagnose(Facts(pod=web, now=now, events=(failed,))).cause == cause


def test_a_restart_with_the_sandbox_is_not_a_failure_but_recovering() -> None:
    last = ContainerStateTerminated(exitCode=137, finishedAt="2026-01-01T00:00:00Z")
    runs = ContainerStateRunning(startedAt="2026-01-01T00:00:10Z")
    status = ContainerStatus(
        name="c", image="a:1", imageID="", ready=True, started=True, restartCount=1,
        state=ContainerState(running=runs), lastState=ContainerState(terminated=last),
    )  # fmt: skip
    web = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),)),
        status=PodStatus(
            phase="Running",
            conditions=(PodCondition(type="Ready", status="True"),),
            containerStatuses=(status,),
        ),
    )
    event = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default", uid="u"),
        reason="SandboxChanged",
        lastTimestamp="2026-01-01T00:00:01Z",
    )
    began = epoch("2026-01-01T00:00:10Z")
    assert began is not None
    diagnosis = diagnose(Facts(pod=web, now=began + 60, events=(event,)))
    assert (diagnosis.cause, diagnosis.health) == ("Recovering", Health.RESTARTING)
    assert diagnose(Facts(pod=web, now=began + 600, events=(event,))).cause == "Healthy"


def test_a_missing_claim_can_be_created_at_home_and_in_a_cluster() -> None:
    text = '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    wait = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=text)
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),)),
        status=PodStatus(phase="Pending", conditions=(wait,)),
    )
    for in_cluster in (False, True):
        advice = diagnose(Facts(pod=waits, now=0.0, in_cluster=in_cluster)).advice
        assert "Create the claim" in advice


# --- what a node does not get from its cluster

TOKEN = "failed to fetch token: "
NO_PATH = "no relationship found between node 'n1' and this object"


def unmounted(text: str) -> Diagnosis:
    """The diagnosis of a pod whose volume cannot be mounted."""
    return waiting("FailedMount", f'MountVolume.SetUp failed for volume "v" : {text}')


def waiting(reason: str, message: str) -> Diagnosis:
    """The diagnosis of a pod without a sandbox that has this event."""
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(
            containers=(Container(name="c", image="a:1"),),
            nodeName="n1",
            volumes=(Volume(name="v"),),
        ),
        status=PodStatus(phase="Pending"),
    )
    event = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason=reason,
        message=message,
        type="Warning",
    )
    return diagnose(Facts(pod=waits, now=0.0, events=(event,)))


def denied(request: str, user: str = "system:node:n1", why: str = f": {NO_PATH}") -> str:
    where = f'in API group "" in the namespace "default"{why}'
    return f'is forbidden: User "{user}" cannot {request} {where}'


ASK_TOKEN = denied('create resource "serviceaccounts/token"')
READ = 'get resource "secrets"'
NO_DRIVER = "driver name d.example.com not found in the list of registered CSI drivers"


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        (f'{TOKEN}serviceaccounts "app" not found', "TokenRefused",
         "Create it: kubectl create serviceaccount app -n default."),
        (f'{TOKEN}serviceaccounts "default" {ASK_TOKEN}', "TokenRefused",
         "Check that the credentials (system:node:n1) are those of the pod's node."),
        (f'secrets "s" {denied(READ)}', "VolumeForbidden",
         "Check that the credentials (system:node:n1) are those of the pod's node."),
        (f'secrets "s" {denied(READ, "podtui", "")}', "VolumeForbidden",
         "Grant it: kubectl create role podtui-get-secrets"),
        ("error processing PVC default/data: PVC is not bound", "ClaimUnbound",
         "See what the claim waits for: kubectl describe pvc data -n default"),
        (NO_DRIVER, "DriverMissing",
         "Run the driver's node plugin on this machine."),
        ('secret "gone" not found', "VolumeDocumentMissing",
         "Create that Secret in the pod's namespace."),
    ],
)  # fmt: skip
def test_a_volume_that_the_cluster_does_not_give(text: str, cause: str, advice: str) -> None:
    diagnosis = unmounted(text)
    assert diagnosis.cause == cause
    assert diagnosis.advice.startswith(advice)


def test_devices_of_resource_claims_that_are_not_prepared() -> None:
    text = "podtui does not allocate the devices of resourceClaims (gpu)"
    diagnosis = waiting(
        "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {text}"
    )
    assert diagnosis.cause == "DevicesFailed"
    assert diagnosis.title == f"The devices of its resource claims cannot be prepared: {text}."


def test_a_failed_mount_is_over_when_the_sandbox_fails_later() -> None:
    def about(reason: str, time: str) -> Event:
        return Event(
            metadata=ObjectMeta(name=f"web.{reason}", namespace="default"),
            involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
            reason=reason,
            message="no",
            lastTimestamp=time,
        )

    early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:04:00Z"
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),)),
        status=PodStatus(phase="Pending"),
    )
    now = (epoch(late) or 0.0) + 10
    mount, sandbox = about("FailedMount", early), about("FailedCreatePodSandBox", late)
    # The kubelet records one of these events in five minutes.
    assert diagnose(Facts(pod=waits, now=now, events=(mount,))).cause == "VolumeFailed"
    assert diagnose(Facts(pod=waits, now=now, events=(mount, sandbox))).cause == "SandboxFailed"


def test_a_variable_that_the_node_may_not_read() -> None:
    text = f'secrets "s" {denied(READ)}'
    waiting = ContainerStateWaiting(reason="CreateContainerConfigError", message=text)
    status = ContainerStatus(
        name="c", image="a:1", imageID="", ready=False, restartCount=0,
        state=ContainerState(waiting=waiting),
    )  # fmt: skip
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),)),
        status=PodStatus(phase="Pending", containerStatuses=(status,)),
    )
    diagnosis = diagnose(Facts(pod=waits, now=0.0))
    assert diagnosis.cause == "DocumentForbidden"
    assert diagnosis.title == (
        "The cluster does not let its node read the Secret s for a variable of c."
    )


def mirrored(problem: str) -> Diagnosis:
    item = pod("web")
    annotations = {CONFIG_SOURCE: "file", MIRROR_PROBLEM: problem}
    meta = structs.replace(item.metadata, annotations=annotations)
    return diagnose(Facts(pod=structs.replace(item, metadata=meta), now=0.0))


def test_a_static_pod_without_its_mirror_pod() -> None:
    diagnosis = mirrored('refused: namespaces "x" not found')
    assert diagnosis.cause == "MirrorRefused"
    assert diagnosis.besides
    assert diagnosis.title == 'The cluster refuses its mirror pod: namespaces "x" not found.'
    assert diagnosis.advice == "Create the namespace: kubectl create namespace x"
    assert diagnosis.field == "metadata.namespace"
    waiting = mirrored("not yet: connection refused")
    assert waiting.cause == "Healthy"
    assert waiting.sentences[0] == "Its mirror pod in the cluster: not yet: connection refused."
