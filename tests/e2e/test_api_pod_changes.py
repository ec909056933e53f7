"""Pods that kubectl creates, changes and deletes while they run, on the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

NODE = "home"
LOOP = 'trap "exit 0" TERM; while :; do sleep 0.2; done'
CPU = "cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>&- || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, engine_url: str) -> Iterator[KubectlAgent]:
    """One agent for all tests of this module: each test uses its own names."""
    with kubectl_agent(tmp_path_factory.mktemp("home"), node=NODE, engine=engine_url) as found:
        yield found


def manifest(
    name: str, *, script: str = LOOP, container: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    main = {
        "name": "main",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        **(container or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **spec.pop("metadata", {})},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "containers": [main],
            **spec,
        },
    }


def create(home: KubectlAgent, document: dict[str, Any]) -> None:
    home.out("create", "-f", "-", text=json.dumps(document))


def run(home: KubectlAgent, name: str, **fields: Any) -> dict[str, Any]:
    """Create the pod, and return it when it is ready."""
    create(home, manifest(name, **fields))
    home.out("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s")
    return pod(home, name)


def pod(home: KubectlAgent, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.out("get", "pod", name, "-o", "json"))
    return found


def status_of(home: KubectlAgent, name: str) -> dict[str, Any]:
    status: dict[str, Any] = pod(home, name)["status"]
    return status


def main_of(home: KubectlAgent, name: str) -> dict[str, Any]:
    """The status of the container ``main``."""
    found: dict[str, Any] = status_of(home, name)["containerStatuses"][0]
    return found


def condition(home: KubectlAgent, name: str, kind: str) -> dict[str, Any] | None:
    conditions = status_of(home, name).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), None)


def events(home: KubectlAgent, name: str) -> list[str]:
    path = '{range .items[*]}{.reason}: {.message}{"\\n"}{end}'
    field = f"--field-selector=involvedObject.name={name}"
    return home.out("get", "events", field, "-o", f"jsonpath={path}").splitlines()


def inside(home: KubectlAgent, name: str, *command: str) -> str:
    return home.out("exec", name, "-c", "main", "--", *command)


def patch(home: KubectlAgent, name: str, change: dict[str, Any], *flags: str) -> str:
    return home.out("patch", "pod", name, *flags, "-p", json.dumps(change))


def resize(home: KubectlAgent, name: str, **resources: Any) -> None:
    containers = [{"name": "main", "resources": resources}]
    patch(home, name, {"spec": {"containers": containers}}, "--subresource=resize")


def deleted(home: KubectlAgent, name: str) -> Callable[[], bool]:
    return lambda: home.run("get", "pod", name).returncode != 0


AMOUNTS = {"cpu": "100m", "memory": "32Mi"}


def test_cpu_is_resized_in_place_and_memory_by_a_restart(home: KubectlAgent) -> None:
    sized = {
        "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ],
    }
    before = run(home, "sized", container=sized)["status"]["containerStatuses"][0]
    more = {"cpu": "200m", "memory": "32Mi"}
    resize(home, "sized", requests=more, limits=more)
    home.until(lambda: main_of(home, "sized")["resources"]["limits"] == more)
    after = main_of(home, "sized")
    assert after["containerID"] == before["containerID"]
    assert after["allocatedResources"] == more
    assert inside(home, "sized", "sh", "-c", CPU).strip() == "20000"
    most = {"cpu": "200m", "memory": "48Mi"}
    resize(home, "sized", requests=most, limits=most)
    home.until(lambda: main_of(home, "sized")["restartCount"] == 1)
    home.until(lambda: main_of(home, "sized").get("resources", {}).get("limits") == most)
    home.until(lambda: condition(home, "sized", "PodResizeInProgress") is None)
    assert main_of(home, "sized")["allocatedResources"] == most
    reasons = [one.split(":")[0] for one in events(home, "sized")]
    assert reasons.count("ResizeStarted") == reasons.count("ResizeCompleted") == 2


def test_a_resize_that_the_node_cannot_hold_is_forbidden(home: KubectlAgent) -> None:
    run(home, "greedy", container={"resources": {"requests": {"cpu": "50m"}}})
    change = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "900"}}}]}
    patched = home.run(
        "patch", "pod", "greedy", "--subresource=resize", "-p", json.dumps({"spec": change})
    )
    problem = "node didn't have enough allocatable resources: cpu, requested: 900000, allocatable: "
    assert problem in patched.stderr
    assert condition(home, "greedy", "PodResizePending") is None
    assert main_of(home, "greedy")["allocatedResources"] == {"cpu": "50m"}


def test_an_update_of_labels_annotations_and_tolerations_keeps_the_containers(
    home: KubectlAgent,
) -> None:
    files = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}},
    ]
    before = run(
        home,
        "marked",
        metadata={"labels": {"tier": "one"}, "annotations": {"note": "first"}},
        container={"volumeMounts": [{"name": "self", "mountPath": "/self"}]},
        volumes=[{"name": "self", "downwardAPI": {"items": files}}],
    )
    assert inside(home, "marked", "cat", "/self/labels") == 'tier="one"'
    home.out("label", "pod", "marked", "tier=two", "--overwrite")
    home.out("annotate", "pod", "marked", "note=second", "--overwrite")
    new = {"key": "spare", "operator": "Exists", "effect": "NoSchedule"}
    patch(home, "marked", {"spec": {"tolerations": [*before["spec"]["tolerations"], new]}})
    home.until(
        lambda: (
            inside(home, "marked", "sh", "-c", "cat /self/labels /self/note") == 'tier="two"second'
        )
    )
    after = pod(home, "marked")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert new in after["spec"]["tolerations"]
    generation = after["metadata"]["generation"]
    assert generation == before["metadata"]["generation"] + 1
    home.until(lambda: status_of(home, "marked")["observedGeneration"] == generation)


def test_a_changed_secret_arrives_in_its_volume(home: KubectlAgent) -> None:
    home.out("create", "secret", "generic", "key", "--from-literal=word=first")
    run(
        home,
        "keyed",
        container={"volumeMounts": [{"name": "key", "mountPath": "/key"}]},
        volumes=[{"name": "key", "secret": {"secretName": "key"}}],
    )
    assert inside(home, "keyed", "cat", "/key/word") == "first"
    home.out("patch", "secret", "key", "-p", '{"stringData": {"word": "second"}}')
    home.until(lambda: inside(home, "keyed", "cat", "/key/word") == "second")
    assert main_of(home, "keyed")["restartCount"] == 0


def test_another_image_restarts_the_container(home: KubectlAgent) -> None:
    before = run(home, "painted")["status"]["containerStatuses"][0]
    home.out("set", "image", "pod/painted", "main=docker.io/library/busybox:1.36")
    home.until(lambda: main_of(home, "painted")["restartCount"] == 1)
    assert any(
        one.startswith("Killing: Container main definition changed, will be restarted")
        for one in events(home, "painted")
    )
    after = main_of(home, "painted")
    assert after["containerID"] != before["containerID"]


def test_a_deadline_that_is_set_later_ends_the_pod(home: KubectlAgent) -> None:
    run(home, "late")
    patch(home, "late", {"spec": {"activeDeadlineSeconds": 1}})
    home.until(lambda: status_of(home, "late")["phase"] == "Failed")
    status = status_of(home, "late")
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert "terminated" in main_of(home, "late")["state"]


def test_a_debug_container_joins_and_ends(home: KubectlAgent) -> None:
    run(home, "patient")
    home.out(
        "debug", "patient", "--image=busybox:1.36", "--container=probe", "--target=main",
        "--image-pull-policy=IfNotPresent", "--", "sh", "-c", "echo seen; ps | grep -c sleep",
    )  # fmt: skip

    def ended() -> bool:
        found = status_of(home, "patient").get("ephemeralContainerStatuses", [])
        return bool(found) and found[0]["state"].get("terminated", {}).get("exitCode") == 0

    home.until(ended)
    lines = home.out("logs", "patient", "-c", "probe").split()
    assert lines[0] == "seen"
    assert int(lines[1]) > 1, "the processes of the target are not visible"
    assert main_of(home, "patient")["restartCount"] == 0


def test_a_pre_stop_hook_runs_before_a_graceful_end(home: KubectlAgent) -> None:
    hook = {"exec": {"command": ["sh", "-c", "echo hook > /proc/1/fd/1; sleep 1"]}}
    run(
        home,
        "polite",
        script='trap "echo term; exit 3" TERM; while :; do sleep 0.2; done',
        container={"lifecycle": {"preStop": hook}},
        metadata={"finalizers": ["example.com/hold"]},
    )
    home.out("delete", "pod", "polite", "--wait=false")
    assert pod(home, "polite")["metadata"]["deletionGracePeriodSeconds"] == 5
    log = home.out("logs", "polite", "--follow").split()
    assert log == ["hook", "term"]
    # The finalizer keeps the record, with the status of the end, but not the container.
    home.until(lambda: "terminated" in main_of(home, "polite")["state"])
    assert main_of(home, "polite")["state"]["terminated"]["exitCode"] == 3
    home.until(lambda: "unable to retrieve container logs" in home.run("logs", "polite").stderr)
    patch(home, "polite", {"metadata": {"finalizers": None}})
    home.until(deleted(home, "polite"))


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [("Never", 0, "Succeeded", 0), ("Never", 4, "Failed", 0), ("OnFailure", 0, "Succeeded", 0)],
)
def test_a_pod_that_finishes_keeps_its_status(
    home: KubectlAgent, policy: str, code: int, phase: str, restarts: int
) -> None:
    name = f"once-{policy.lower()}-{code}"
    create(home, manifest(name, script=f"echo done; exit {code}", restartPolicy=policy))
    home.until(lambda: status_of(home, name)["phase"] == phase)
    ended = main_of(home, name)
    assert ended["state"]["terminated"]["exitCode"] == code
    assert ended["restartCount"] == restarts
    assert home.out("logs", name) == "done\n"
    home.out("delete", "pod", name, "--timeout=120s")


def test_a_failed_container_is_started_again_until_it_succeeds(home: KubectlAgent) -> None:
    keep = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    script = "[ -e /kept/tried ] && exit 0; touch /kept/tried; exit 1"
    create(
        home,
        manifest(
            "retried",
            script=script,
            container=keep,
            restartPolicy="OnFailure",
            volumes=[{"name": "kept", "emptyDir": {}}],
        ),
    )
    home.until(lambda: status_of(home, "retried")["phase"] == "Succeeded")
    assert main_of(home, "retried")["restartCount"] == 1


def test_a_pod_is_created_again_under_its_name(home: KubectlAgent) -> None:
    first = run(home, "twin")["metadata"]["uid"]
    for _ in range(3):
        home.out("delete", "pod", "twin", "--force", "--grace-period=0")
        second = run(home, "twin")["metadata"]["uid"]
        assert second != first
        first = second
    home.out("replace", "--force", "-f", "-", text=json.dumps(manifest("twin", script="sleep 77")))
    home.out("wait", "--for=condition=Ready", "pod/twin", "--timeout=120s")
    assert pod(home, "twin")["spec"]["containers"][0]["command"][2] == "sleep 77"


def test_a_name_that_a_static_pod_wants_stays_with_the_api_pod(home: KubectlAgent) -> None:
    before = run(home, f"clash-{NODE}")["metadata"]["uid"]
    file = home.folder / "clash.json"
    document = manifest("clash")
    del document["spec"]["automountServiceAccountToken"]
    file.write_text(json.dumps(document))
    try:
        home.until(lambda: "clash" in home.out("get", "pods", "-A"))
        assert pod(home, f"clash-{NODE}")["metadata"]["uid"] == before
        home.out("delete", "pod", f"clash-{NODE}", "--timeout=120s")

        def mirrored() -> bool:
            found = home.run("get", "pod", f"clash-{NODE}", "-o", "json")
            return found.returncode == 0 and (
                "kubernetes.io/config.mirror" in json.loads(found.stdout)["metadata"]["annotations"]
            )

        home.until(mirrored)
    finally:
        file.unlink()
    home.until(deleted(home, f"clash-{NODE}"))


def test_a_host_port_has_one_holder(home: KubectlAgent) -> None:
    ports = {"ports": [{"containerPort": 80, "hostPort": 38471}]}
    run(home, "holder", container=ports)
    create(home, manifest("heir", container=ports))
    home.until(lambda: condition(home, "heir", "PodScheduled") is not None)
    refused = condition(home, "heir", "PodScheduled")
    assert refused is not None
    assert refused["reason"] == "Unschedulable"
    assert "1 node(s) didn't have free ports for the requested pod ports" in refused["message"]
    # The node rejects a pod that was bound without the scheduler.
    create(home, manifest("intruder", container=ports, nodeName=NODE))
    home.until(lambda: status_of(home, "intruder")["phase"] == "Failed")
    status = status_of(home, "intruder")
    assert status["reason"] == "NodePorts"
    home.out("delete", "pod", "holder", "--timeout=120s")
    home.out("wait", "--for=condition=Ready", "pod/heir", "--timeout=120s")


@pytest.mark.parametrize(
    ("name", "script", "message"),
    [
        (
            "volume",
            "head -c 3000000 /dev/zero > /v/file",
            'Usage of EmptyDir volume "v" exceeds the limit "2Mi". ',
        ),
        (
            "whole",
            "head -c 1500000 /dev/zero > /v/file; head -c 9000000 /dev/zero > /file",
            "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. ",
        ),
    ],
)
def test_a_pod_that_exceeds_a_limit_of_storage_is_evicted(
    home: KubectlAgent, name: str, script: str, message: str
) -> None:
    writer = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"limits": {"ephemeral-storage": "8Mi"}},
    }
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "2Mi"}}]
    create(home, manifest(name, script=f"{script}; {LOOP}", container=writer, volumes=volumes))
    home.until(lambda: status_of(home, name).get("reason") == "Evicted", seconds=150.0)
    status = status_of(home, name)
    assert (status["phase"], status["message"]) == ("Failed", message)
    assert f"Evicted: {message.strip()}" in [one.strip() for one in events(home, name)]
    home.until(lambda: "terminated" in main_of(home, name)["state"])


def test_fifty_pods_at_once(home: KubectlAgent) -> None:
    names = [f"many-{index}" for index in range(50)]
    pods = [
        manifest(name, script="sleep 999", metadata={"labels": {"of": "many"}}) for name in names
    ]
    create(home, {"apiVersion": "v1", "kind": "List", "items": pods})
    home.out("wait", "--for=condition=Ready", "pod", "-l", "of=many", "--timeout=120s")
    addresses = home.out("get", "pods", "-l", "of=many", "-o", "jsonpath={.items[*].status.podIP}")
    assert len(set(addresses.split())) == 50
    home.out("delete", "pod", "-l", "of=many", "--grace-period=1", "--timeout=120s")
    assert home.out("get", "pods", "-l", "of=many", "-o", "name") == ""
