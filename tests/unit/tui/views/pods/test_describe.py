"""The description of a pod and its containers."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from tui_records import text_of
from tui_scene import NOW, gallery

from podtui.api.names import CONFIG_MIRROR, MIRROR_PROBLEM
from podtui.api.v1 import EnvVar, ExecAction, Pod, Probe
from podtui.tui.views.pods.describe import (
    describe_pod,
    env_text,
    probe_text,
    security_text,
    short_id,
)
from podtui.tui.widgets.cells import Line, line_width, width_of

AT = NOW.timestamp()
POD = {
    "metadata": {"name": "web-n1", "namespace": "default", "uid": "u"},
    "spec": {
        "containers": [
            {
                "name": "app", "image": "nginx:1", "imagePullPolicy": "Always",
                "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080}],
                "env": [
                    {"name": "PASSWORD", "value": "hunter2"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "t"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "conf"}, "prefix": "C_"}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/d", "subPath": "a", "readOnly": True}
                ],
                "securityContext": {
                    "runAsUser": 1000, "readOnlyRootFilesystem": True,
                    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                },
            }
        ],
        "initContainers": [{"name": "setup", "image": "busybox:1"}],
        "ephemeralContainers": [
            {"name": "debugger", "image": "busybox:1", "targetContainerName": "app"}
        ],
    },
    "status": {
        "phase": "Running",
        "ephemeralContainerStatuses": [
            {"name": "debugger", "image": "busybox:1", "imageID": "sha256:" + "ab" * 32,
             "containerID": "docker://" + "cd" * 32, "ready": False, "restartCount": 0,
             "state": {"running": {"startedAt": "2026-11-21T11:59:00Z"}}}
        ],
    },
}  # fmt: skip


def web() -> Pod:
    return msgspec.convert(POD, Pod)


def described(pod: Pod, width: int = 100) -> list[Line]:
    return describe_pod(pod, events=(), manifest=None, usage=None, now=AT, width=width)


def test_a_container_is_described_completely() -> None:
    output = text_of(described(web()))
    for words in ("nginx:1 · always pulled", "http 80/TCP ← host 8080", "/d ← data/a (read-only)",
                  "user 1000, read-only root, +NET_ADMIN, -ALL"):  # fmt: skip
        assert words in output


@pytest.mark.parametrize(
    ("problem", "in_cluster", "shown"),
    [
        ("", True, "Mirror pod   in the cluster"),
        ("refused: no", True, "Mirror pod   refused: no"),
        ("", False, ""),
    ],
)
def test_a_static_pod_has_a_mirror_pod_in_the_cluster(
    problem: str, in_cluster: bool, shown: str
) -> None:
    item = web()
    annotations = {CONFIG_MIRROR: "h"} | ({MIRROR_PROBLEM: problem} if problem else {})
    item = replace(item, metadata=replace(item.metadata, annotations=annotations))
    lines = describe_pod(
        item, events=(), manifest=None, usage=None, now=AT, width=100, in_cluster=in_cluster
    )
    summary = text_of(lines).partition("Containers")[0]
    assert shown in summary if shown else "Mirror pod" not in summary


def test_variables_are_shown_by_name_and_source_without_values() -> None:
    output = env_text(web().spec.containers[0])
    assert output == "PASSWORD, TOKEN ← secret keys/t, IP ← status.podIP, C_* ← configMap conf"
    assert "hunter2" not in text_of(described(web()))


def test_init_and_ephemeral_containers_have_their_own_parts() -> None:
    lines = text_of(described(web())).split("\n")
    assert lines.index("Init containers") < lines.index("Containers")
    assert lines.index("Containers") < lines.index("Ephemeral containers")
    debugger = next(line for line in lines if "debugger" in line)
    assert "running for 60s · " in debugger
    assert "targets app" in debugger


def test_line_breaks_of_a_command_are_visible() -> None:
    script = "while true; do\n  date\ndone\n"
    shown = "sh -c 'while true; do⏎  date⏎done⏎'"
    command = ("sh", "-c", script)
    pod = web()
    container = replace(pod.spec.containers[0], command=command)
    pod = replace(pod, spec=replace(pod.spec, containers=(container,)))
    assert shown in text_of(described(pod))
    assert probe_text(Probe(exec=ExecAction(command=command))).startswith(f"exec {shown}, every")
    assert width_of("⏎") == 1


def test_ids_are_shortened() -> None:
    assert short_id("docker://" + "cd" * 32) == "docker://cdcdcdcdcdcd"
    assert short_id("docker.io/nginx@sha256:" + "ab" * 32) == "docker.io/nginx@sha256:abababababab"
    assert short_id("") == ""


def test_default_privileges_are_not_shown() -> None:
    assert security_text(None) == ""


@pytest.mark.parametrize("width", [40, 78, 118, 149, 150, 198])
def test_every_pod_fits_the_screen_at_any_width(width: int) -> None:
    nasty = msgspec.structs.replace(
        web(),
        spec=msgspec.structs.replace(
            web().spec,
            containers=(
                msgspec.structs.replace(
                    web().spec.containers[0],
                    command=("sh", "-c", "\x1b[2J" + "x" * 300 + "\n漢字" * 40),
                    env=tuple(EnvVar(name=f"V{n}" * 9) for n in range(60)),
                ),
            ),
        ),
    )
    for pod in (*gallery(), web(), nasty):
        for line in described(pod, width):
            assert line_width(line) <= width
            assert "\x1b" not in text_of([line])


def test_wide_screens_show_containers_beside_conditions() -> None:
    crash = next(p for p in gallery() if p.metadata.name.startswith("crash"))
    wide = text_of(described(crash, 198)).split("\n")
    assert any("Containers" in line and "Conditions" in line for line in wide)
    narrow = text_of(described(crash, 120)).split("\n")
    assert not any("Containers" in line and "Conditions" in line for line in narrow)


@pytest.mark.parametrize(
    ("name", "policy", "title"),
    [("web", "Always", "Runs "), ("crash-loop", "Always", "Why "), ("batch", "Never", "Ended ")],
)
def test_the_explanation_has_a_matching_title(name: str, policy: str, title: str) -> None:
    pod = next(one for one in gallery() if one.metadata.name == f"{name}-n1")
    pod = replace(pod, spec=replace(pod.spec, restartPolicy=policy))
    lines = text_of(described(pod)).splitlines()
    status = next(n for n, line in enumerate(lines) if line.lstrip().startswith("Status"))
    assert lines[status + 1].lstrip().startswith(title)
