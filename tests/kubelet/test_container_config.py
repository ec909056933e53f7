"""Container configurations: security, mounts, identity."""

from __future__ import annotations

import json

import pytest
from pod_builders import GI, ctr, make_pod, node

from podtui.kubelet.actions import container_hash
from podtui.kubelet.config_error import ConfigError
from podtui.kubelet.container_config import container_config
from podtui.runtime.protocol import ImageRecord, NamespaceMode, SecurityContext

WHERE = '(pod: "web-n1_default(u1)", container: c)'

NOT_NUMERIC = (
    "container has runAsNonRoot and image has non-numeric user (nobody),"
    f" cannot verify user is non-root {WHERE}"
)


def config(container=None, *, image_user="", pod=None, **fields):
    pod = pod or make_pod(container or ctr(), **fields)
    return container_config(
        pod,
        pod.spec.containers[0],
        node(),
        image=ImageRecord(id="sha256:1", user=image_user),
        restart_count=2,
        pod_ips=("10.0.0.7",),
        host_ips=("192.0.2.2",),
    )


def security(own=None, shared=None, **fields) -> SecurityContext:
    return config(ctr(securityContext=own or {}), securityContext=shared or {}, **fields).security


def refused(**fields) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**fields)
    return str(caught.value)


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


def test_case_108_command_and_args():
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


def test_the_plain_rest():
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


# --- security


def test_nothing_said():
    assert security() == SecurityContext()
    assert security().seccomp == "unconfined"


@pytest.mark.parametrize(
    ("own", "shared", "image_user", "expected"),
    [
        ({}, {}, "nobody", ""),
        ({"runAsUser": 5}, {}, "", "5"),
        ({}, {"runAsUser": 6}, "", "6"),
        ({"runAsUser": 5}, {"runAsUser": 6}, "", "5"),
        ({"runAsUser": 5, "runAsGroup": 7}, {}, "", "5:7"),
        ({"runAsUser": 5}, {"runAsGroup": 8}, "", "5:8"),
        ({"runAsGroup": 7}, {}, "", "0:7"),
        ({"runAsGroup": 7}, {}, "nobody", "nobody:7"),
        ({"runAsGroup": 7}, {}, "9:9", "9:7"),
        ({"runAsUser": 0}, {"runAsUser": 6}, "", "0"),
    ],
)
def test_users(own, shared, image_user, expected):
    assert security(own, shared, image_user=image_user).user == expected


def test_groups():
    found = security(shared={"fsGroup": 5, "supplementalGroups": [7, 5, 8]})
    assert found.groups == (5, 7, 8)


@pytest.mark.parametrize(
    ("own", "shared", "image_user", "message"),
    [
        (
            {"runAsNonRoot": True, "runAsUser": 0},
            {},
            "",
            f"container's runAsUser breaks non-root policy {WHERE}",
        ),
        (
            {"runAsNonRoot": True},
            {},
            "nobody",
            NOT_NUMERIC,
        ),
        (
            {},
            {"runAsNonRoot": True},
            "",
            f"container has runAsNonRoot and image will run as root {WHERE}",
        ),
        (
            {"runAsNonRoot": True},
            {},
            "0:5",
            f"container has runAsNonRoot and image will run as root {WHERE}",
        ),
    ],
)
def test_case_45_run_as_non_root(own, shared, image_user, message):
    text = refused(
        container=ctr(securityContext=own), securityContext=shared, image_user=image_user
    )
    assert text == message


@pytest.mark.parametrize(
    ("own", "shared", "image_user"),
    [
        ({"runAsNonRoot": True, "runAsUser": 5}, {}, ""),
        ({"runAsNonRoot": True}, {"runAsUser": 5}, ""),
        ({"runAsNonRoot": True}, {}, "1000"),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, ""),
    ],
)
def test_non_root_that_is_kept(own, shared, image_user):
    security(own, shared, image_user=image_user)


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ({}, {}, "unconfined"),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {}, "runtime/default"),
        ({}, {"seccompProfile": {"type": "RuntimeDefault"}}, "runtime/default"),
        (
            {"seccompProfile": {"type": "Unconfined"}},
            {"seccompProfile": {"type": "RuntimeDefault"}},
            "unconfined",
        ),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            {},
            "localhost/a/b.json",
        ),
        (
            {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
            {},
            "unconfined",
        ),
    ],
)
def test_seccomp(own, shared, expected):
    assert security(own, shared).seccomp == expected


def test_what_a_container_may_do():
    found = security(
        {
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "procMount": "Unmasked",
        }
    )
    assert (found.add_capabilities, found.drop_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert found.read_only_rootfs
    assert found.no_new_privileges
    assert found.unmasked_proc
    assert not security({"allowPrivilegeEscalation": True}).no_new_privileges
    assert security({"privileged": True}).privileged


def test_apparmor():
    profile = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}}
    assert security(profile).apparmor == "localhost/mine"
    assert security({}, {"appArmorProfile": {"type": "RuntimeDefault"}}).apparmor == (
        "runtime/default"
    )
    assert security().apparmor == ""
