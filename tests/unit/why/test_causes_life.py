"""Causes that need more than a manifest: lost engines, waiting versions, machine shutdown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kubelet_world import PRESENT, World, no_file
from kubelet_world import pod as plain_pod
from msgspec import structs
from why_world import DiagnosedPod, diagnosed_pod, fix_index, fixed, manifest_of, pod_text, spec

from podtui.api.local import ManifestState
from podtui.api.v1 import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    RuntimeClass,
)
from podtui.errors import EngineTimeout
from podtui.runtime.memory import Behaviour
from podtui.runtime.memory.images import simulated_image
from podtui.why import Facts, Health, Kind, diagnose, diagnose_manifest
from podtui.why.node_pods import NodePods

pytestmark = pytest.mark.virtual_time

UNREADABLE = """\
apiVersion: v1
kind: Pod
metadata:
  name: unknown-field
  restartPolicy: Never  # once
spec:
  containers:
    - name: app
      image: busybox:1.36
      workdir: /tmp  # there
"""


async def test_the_engine_is_unavailable() -> None:
    async with diagnosed_pod(pod_text()) as it:
        await it.until("Healthy")
        it.world.engine.faults.make_unavailable("no engine answers")
        diagnosis = await it.until("EngineLost")
        assert (diagnosis.kind, diagnosis.health) == (Kind.FAILURE, Health.RUNNING)
        assert "not ready" in diagnosis.title


async def test_the_engine_has_not_the_runtime_of_a_class() -> None:
    world = World()
    kata = RuntimeClass(metadata=ObjectMeta(name="kata"), handler="qemu")
    await world.store.put("runtimeclasses", kata)
    async with diagnosed_pod(pod_text(pod="runtimeClassName: kata\n"), world) as it:
        diagnosis = await it.until("RuntimeMissing")
        assert diagnosis.title == (
            "The engine has no runtime qemu, the handler of the RuntimeClass kata."
        )
        assert diagnosis.advice.endswith("The engine has the runtimes runc.")
        assert diagnosis.field == "spec.runtimeClassName"


def test_all_errors_of_an_invalid_file_are_fixed_together() -> None:
    manifest, _ = manifest_of(UNREADABLE)
    diagnosis = diagnose_manifest(manifest)
    assert (diagnosis.cause, diagnosis.kind) == ("ManifestInvalid", Kind.FAILURE)
    assert diagnosis.position == (5, 3)
    assert fixed(diagnosis, UNREADABLE) == (
        UNREADABLE.replace("  restartPolicy: Never  # once\n", "")
        .replace("spec:\n", "spec:\n  restartPolicy: Never\n")
        .replace("workdir:", "workingDir:")
    )


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("imagePullPolicy: always", "imagePullPolicy: Always"),
        ("env: [{name: A, value: 1}]", 'env: [{name: A, value: "1"}]'),
        ("stdin: 'true'", "stdin: true"),
        ("workngDir: /tmp", "workingDir: /tmp"),
    ],
)
def test_a_typing_error_is_fixed(wrong: str, right: str) -> None:
    text = pod_text(f"{wrong}  # a slip\n")
    manifest, _ = manifest_of(text)
    diagnosis = diagnose_manifest(manifest)
    assert fixed(diagnosis, text) == pod_text(f"{right}  # a slip\n")
    assert "?" not in diagnosis.fixes[0].title
    if "workngDir" in wrong:
        assert diagnosis.fixes[0].title == 'Write "workingDir"'


def test_errors_without_a_mechanical_fix_are_kept() -> None:
    manifest, _ = manifest_of(pod_text("ports: [{containerPort: 99999}]\n"))
    diagnosis = diagnose_manifest(manifest)
    assert diagnosis.fixes == ()
    assert diagnosis.field == "spec.containers[0].ports[0].containerPort"


def test_a_valid_file_is_reported_as_such() -> None:
    assert diagnose_manifest(manifest_of(pod_text())[0]).cause == "ManifestFine"


async def test_a_pod_whose_file_became_invalid_keeps_running_and_reports_it() -> None:
    async with diagnosed_pod(pod_text()) as it:
        await it.until("Healthy")
        broken, _ = manifest_of(pod_text("imago: x\n"))
        status = structs.replace(broken.status, state=ManifestState.LAST_GOOD)
        diagnosis = await it.why(manifest=structs.replace(broken, status=status))
        assert diagnosis.cause == "ManifestInvalid"
        assert "keeps running" in diagnosis.sentences[0]
        assert diagnosis.position == (9, 7)


async def test_a_version_waits_for_the_previous_one() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with diagnosed_pod(pod_text(pod="terminationGracePeriodSeconds: 20\n"), world) as it:
        await it.until("Healthy")
        new = DiagnosedPod(world, pod_text("tty: true\n", "terminationGracePeriodSeconds: 20\n"))
        world.replace(it.pod.metadata.uid, new.pod)
        await world.sleep(5.0)
        diagnosis = await new.why()
        assert diagnosis.cause == "WaitsForOldVersion"
        assert "20 s" in diagnosis.sentences[0]
        shorter = fixed(
            diagnosis, new.text, fix_index(diagnosis, "Shorten terminationGracePeriodSeconds")
        )
        assert "terminationGracePeriodSeconds: 5\n" in shorter
        await new.until("Healthy")


async def test_a_terminating_pod() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with diagnosed_pod(pod_text(), world) as it:
        await it.until("Healthy")
        world.remove(it.pod.metadata.uid)
        await world.sleep(5.0)
        diagnosis = await it.why()
        assert (diagnosis.cause, diagnosis.health) == ("Terminating", Health.TERMINATING)
        assert "waits for c to exit" in diagnosis.title


async def test_a_pod_that_the_engine_does_not_stop() -> None:
    silent = EngineTimeout("unix:///x: no answer in time")
    async with diagnosed_pod(pod_text()) as it:
        await it.until("Healthy")
        it.world.engine.faults.fail("stop_container", silent, times=None)
        it.world.remove(it.pod.metadata.uid)
        await it.world.sleep(5.0)
        diagnosis = await it.why()
        assert diagnosis.cause == "StopFailed"
        assert str(silent) in diagnosis.title
        it.world.engine.faults.fail("check", silent, times=None)
        it.world.engine.faults.fail("connect", silent, times=None)
        await it.world.sleep(60.0)
        diagnosis = await it.why()
        assert diagnosis.cause == "EngineLost"
        assert diagnosis.advice.startswith("The engine accepts connections and does not answer.")


async def test_a_preempted_pod() -> None:
    text = pod_text("resources: {requests: {cpu: 6}}\n", "priority: 1\n")
    async with diagnosed_pod(text) as it:
        await it.until("Healthy")
        rival = DiagnosedPod(
            it.world, text.replace("name: web", "name: big").replace(": 1\n", ": 9\n")
        )
        it.world.add(rival.pod)
        diagnosis = await it.until("Preempted")
        assert diagnosis.field == "spec.priority"


async def test_a_machine_that_shuts_down() -> None:
    world = World(shutdown_grace_period=30.0, shutdown_grace_period_critical_pods=10.0)
    async with diagnosed_pod(pod_text(), world) as it:
        await it.until("Healthy")
        late = DiagnosedPod(world, pod_text().replace("name: web", "name: late"))
        async with world.running_beside(world.kubelet.shut_down):
            await world.sleep(5.0)
            world.add(late.pod)
            await world.sleep(5.0)
            assert (await it.why()).cause == "ShutDown"
            assert (await late.why()).cause == "NodeShuttingDown"


async def test_an_image_whose_user_is_a_name() -> None:
    world = World()
    world.engine.images.add(replace(simulated_image(PRESENT), user="app"), PRESENT)
    async with diagnosed_pod(pod_text("securityContext: {runAsNonRoot: true}\n"), world) as it:
        diagnosis = await it.until("UserNotANumber")
        assert "app" in diagnosis.title
        fixed(diagnosis, it.text)


async def test_variables_from_a_missing_file() -> None:
    text = (
        pod_text(
            "env:\n- name: A\n  valueFrom:\n    fileKeyRef: {volumeName: v, path: a.env, key: A}\n",
            "volumes: [{name: v, emptyDir: {}}]\n",
        )
        + "      volumeMounts: [{name: v, mountPath: /v}]\n"
    )
    async with diagnosed_pod(text) as it:
        assert "env file" in (await it.until("ContainerConfig")).title


async def test_a_container_removed_by_others() -> None:
    async with diagnosed_pod(pod_text(pod="restartPolicy: Never\n")) as it:
        await it.until("Healthy")
        cell = next(iter(it.world.engine.containers.values()))
        it.world.engine.kill(cell)
        it.world.engine.remove_container(cell)
        diagnosis = await it.until("ContainerLost")
        assert diagnosis.container == "c"


async def test_a_container_that_ignored_its_stop_signal() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    fixed_uid = pod_text(pod="terminationGracePeriodSeconds: 3\n").replace(
        "name: web\n", "name: web\n  uid: fixed\n"
    )
    async with diagnosed_pod(fixed_uid, world) as it:
        await it.until("Healthy")
        world.engine.images.add(simulated_image("busybox:2"), "busybox:2")
        world.engine.faults.hold("create_container")
        world.add(DiagnosedPod(world, fixed_uid.replace("busybox:1", "busybox:2")).pod)
        diagnosis = await it.until("KilledAfterGrace")
        assert "3 s" in diagnosis.sentences[0]
        world.engine.faults.release("create_container")
        await it.until("Healthy")


async def test_a_restart_without_a_failure_is_healthy() -> None:
    """Containers end with their sandbox, and are restarted."""
    async with diagnosed_pod(pod_text()) as it:
        await it.until("Healthy")
        await it.world.runtime.stop_sandbox(it.world.sandboxes()[0].id)
        await it.world.sleep(30.0)
        facts = await it.facts()
        assert facts.pod.status.containerStatuses[0].restartCount == 1
        assert (await it.why()).cause == "Healthy"


async def test_the_init_container_is_named_not_the_waiting_ones() -> None:
    text = spec(
        """\
        initContainers:
        - name: migrate
          image: busybox:1
          command: ["sh", "-c", "exit 1"]
        containers:
        - name: app
          image: nosuch:1
        """
    )
    async with diagnosed_pod(text) as it:
        diagnosis = await it.until("Fails")
        assert (diagnosis.container, diagnosis.field) == (
            "migrate",
            "spec.initContainers[0].command",
        )


async def test_a_sidecar_that_has_not_started_is_named() -> None:
    text = spec(
        """\
        initContainers:
        - name: proxy
          image: busybox:1
          restartPolicy: Always
          startupProbe: {exec: {command: [cat, /none]}, periodSeconds: 2, failureThreshold: 60}
        containers:
        - name: app
          image: busybox:1
        """
    )
    world = World()
    world.commands["cat /none"] = no_file("/none")
    async with diagnosed_pod(text, world) as it:
        assert (await it.until("StartupWaiting")).container == "proxy"


async def test_the_first_failing_container_is_named() -> None:
    text = pod_text() + (
        "    - {name: b, image: 'busybox:1', command: [sh, -c, exit 1]}\n"
        "    - {name: d, image: 'busybox:1', command: [sh, -c, exit 2]}\n"
    )
    async with diagnosed_pod(text) as it:
        assert (await it.until("Fails")).container == "b"


async def test_a_container_restarted_a_minute_ago_is_not_healthy_yet() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=30.0, exit_code=1)
    async with diagnosed_pod(pod_text(), world) as it:
        await world.sleep(45.0)
        facts = await it.facts()
        assert facts.pod.status.containerStatuses[0].ready
        assert (await it.why()).cause == "Fails"
        world.behaviours.clear()
        await world.sleep(700.0)
        assert (await it.why()).cause == "Healthy"


# --- statuses from an API server that no static pod has


def cause_of(status: PodStatus) -> str:
    made = plain_pod("web")
    return diagnose(Facts(pod=structs.replace(made, status=status), now=0.0)).cause


def test_pods_evicted_by_a_kubelet() -> None:
    low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "
    barred = "Pod was rejected: The node had condition: [MemoryPressure]. "
    ran = (PodCondition(type="Initialized", status="True"),)
    evicted = PodStatus(phase="Failed", reason="Evicted", message=low, conditions=ran)
    assert cause_of(evicted) == "Evicted"
    assert cause_of(PodStatus(phase="Failed", reason="Evicted", message=barred)) == (
        "NodeUnderPressure"
    )


def test_a_pod_failure_not_caused_by_a_container() -> None:
    ran = (PodCondition(type="Initialized", status="True"),)
    assert cause_of(PodStatus(phase="Failed", message="gone", conditions=ran)) == "Failed"


def test_a_back_off_without_other_evidence() -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    status = ContainerStatus(
        name="c", image=PRESENT, imageID="", ready=False, restartCount=3, state=waiting
    )
    assert cause_of(PodStatus(phase="Running", containerStatuses=(status,))) == "BackingOff"


def test_an_unknown_rejection_is_quoted() -> None:
    status = PodStatus(phase="Failed", reason="InvalidNodeInfo", message="Kubelet cannot tell")
    assert cause_of(status) == "Rejected"


UNAVAILABLE = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
    "example.com/gpu. Requested: 2, Available: 1, which is unexpected"
)


def test_devices_that_are_in_use() -> None:
    asks = "resources: {limits: {example.com/gpu: 2}}\n"
    manifest, rejected = manifest_of(pod_text(asks))
    _, user = manifest_of(pod_text(asks).replace("name: web", "name: trainer"), "trainer")
    assert rejected is not None
    assert user is not None
    status = PodStatus(phase="Failed", reason="UnexpectedAdmissionError", message=UNAVAILABLE)
    rejected = structs.replace(rejected, status=status)
    diagnosis = diagnose(
        Facts(pod=rejected, now=0.0, manifest=manifest, node_pods=NodePods((rejected, user)))
    )
    assert (diagnosis.cause, diagnosis.brief) == ("NoDevice", "no free example.com/gpu")
    assert diagnosis.title == ("The container needs 2 of example.com/gpu, but the node had 1 free.")
    assert "Largest requests now: trainer-n1 2." in diagnosis.sentences
    assert diagnosis.position is not None


@pytest.mark.parametrize(
    "text",
    [
        "no healthy devices present; cannot allocate unhealthy devices example.com/gpu",
        "cannot allocate unregistered device example.com/gpu",
        "endpoint example.com/gpu has been stopped",
        "endpoint not found in cache for a registered resource: example.com/gpu",
    ],
)
def test_devices_without_a_plugin(text: str) -> None:
    message = f"Pod was rejected: Allocate failed due to {text}, which is unexpected"
    status = PodStatus(phase="Failed", reason="UnexpectedAdmissionError", message=message)
    made = Pod(metadata=ObjectMeta(name="x"), spec=PodSpec(containers=()), status=status)
    diagnosis = diagnose(Facts(pod=made, now=0.0))
    assert (diagnosis.cause, diagnosis.brief) == (
        "NoDevicePlugin",
        "no plugin or healthy device of example.com/gpu",
    )


def test_a_pod_without_any_evidence() -> None:
    assert (
        diagnose(
            Facts(pod=Pod(metadata=ObjectMeta(name="x"), spec=PodSpec(containers=())), now=0.0)
        ).cause
        == "OnItsWay"
    )
