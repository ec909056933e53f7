"""Container configurations: identity, commands, and fields that are passed on."""

from __future__ import annotations

import json

import pytest
from pod_builders import GI, ctr, make_pod, node

from podtui.kubelet.containers.container_config import container_config, container_hash
from podtui.kubelet.types import NodeContext
from podtui.kubelet.value_sources import ValueSources
from podtui.runtime.protocol import ImageRecord, NamespaceMode


def config(container=None, **fields):
    pod = make_pod(container or ctr(), **fields)
    return container_config(
        pod,
        pod.spec.containers[0],
        ValueSources(node=node(), pod_ips=("10.0.0.7",), host_ips=("192.0.2.2",)),
        NodeContext(),
        image=ImageRecord(id="sha256:1"),
        restart_count=2,
    )


def test_identity():
    found = config(
        ctr(
            terminationMessagePath="/dev/termination-log",
            terminationMessagePolicy="File",
            ports=[{"containerPort": 80}],
            lifecycle={"preStop": {"exec": {"command": ["true"]}}},
        )
    )
    assert (found.name, found.attempt, found.image, found.image_id) == (
        "c",
        2,
        "busybox:1",
        "sha256:1",
    )
    assert (found.pod_name, found.pod_namespace, found.pod_uid) == ("web-n1", "default", "u1")
    assert found.labels == {
        "io.kubernetes.pod.name": "web-n1",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u1",
        "io.kubernetes.container.name": "c",
    }
    notes = dict(found.annotations)
    ports = json.loads(notes.pop("io.kubernetes.container.ports"))
    hook = json.loads(notes.pop("io.kubernetes.container.preStopHandler"))
    assert ports == [{"containerPort": 80}]
    assert hook == {"exec": {"command": ["true"]}}
    assert notes == {
        "io.kubernetes.container.hash": container_hash(make_pod().spec.containers[0]),
        "io.kubernetes.container.restartCount": "2",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
    }
    assert found.termination_message_path == "/dev/termination-log"


def test_command_drops_the_images_args_and_args_keep_its_command():
    assert (config().command, config().args) == (None, None)
    assert config(ctr(command=["a"])).command == ("a",)
    assert config(ctr(command=["a"])).args is None
    assert (config(ctr(args=["b"])).command, config(ctr(args=["b"])).args) == (None, ("b",))


def test_commands_are_expanded_from_the_final_environment():
    found = config(
        ctr(
            command=["sh", "$(A)$$(A)$(B)"],
            args=["$(A)"],
            env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        )
    )
    assert found.command == ("sh", "2$(A)$(B)")
    assert found.args == ("2",)
    assert found.env == (("A", "2"),)


def test_other_fields():
    found = config(ctr(workingDir="/w", stdin=True, stdinOnce=True, tty=True))
    assert (found.working_dir, found.stdin, found.stdin_once, found.tty) == (
        "/w",
        True,
        True,
        True,
    )
    assert config().pid is NamespaceMode.CONTAINER
    assert config(shareProcessNamespace=True).pid is NamespaceMode.POD
    assert config(hostPID=True).pid is NamespaceMode.NODE
    limits = {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    assert config(ctr(resources=limits)).resources.memory == GI


@pytest.mark.parametrize(
    ("policy", "completes"), [("Always", False), ("OnFailure", True), ("Never", True)]
)
def test_the_containers_of_a_pod_that_is_not_always_restarted_complete(
    policy: str, completes: bool
):
    assert config(restartPolicy=policy).completes is completes


@pytest.mark.parametrize(("policy", "completes"), [(None, True), ("Always", False)])
def test_init_containers_complete_unless_they_are_sidecars(policy: str | None, completes: bool):
    init = ctr("setup") if policy is None else ctr("setup", restartPolicy=policy)
    pod = make_pod(ctr(), init=(init,))
    found = container_config(
        pod,
        pod.spec.initContainers[0],
        ValueSources(node=node(), pod_ips=("10.0.0.7",), host_ips=("192.0.2.2",)),
        NodeContext(),
        image=ImageRecord(id="sha256:1"),
        restart_count=0,
    )
    assert found.completes is completes
