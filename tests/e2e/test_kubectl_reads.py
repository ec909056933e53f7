"""The reading verbs of kubectl, on an agent that starts from an empty root directory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import pytest
from kubectl import NEWEST, OLDER
from kubectl_agent import KubectlAgent, kubectl_agent
from kubectl_transcript import differences, masked

STATIC: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: file, labels: {app: file}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", command: [sleep, "3600"]}]
"""
PODS: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: again, labels: {app: again}}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "[ -f /v/x ] && echo second && exec sleep 3600; touch /v/x; echo first"]
    volumeMounts: [{name: v, mountPath: /v}]
---
apiVersion: v1
kind: Pod
metadata: {name: done, labels: {app: done}}
spec:
  restartPolicy: Never
  containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "echo end; exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: talker, labels: {app: talk, tier: first}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: one, image: "busybox:1.36", command: [sh, -c, "echo one-a; echo one-b; exec sleep 3600"]}
  - {name: two, image: "busybox:1.36", command: [sh, -c, "echo two-a; exec sleep 3600"]}
"""


# kubectl 1.27 asks for versions of the API that Kubernetes v1.36 does not serve either, and its
# --for needs a value.
LACKING: Final = {"1.27": ("auth whoami", "wait '--for=jsonpath={.status.podIP}' pod/talker")}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("reads"), node="n1") as found:
        (found.folder / "file.yaml").write_text(STATIC)
        (found.work / "pods.yaml").write_text(PODS)
        found.out("create", "-f", "pods.yaml")
        found.out("create", "configmap", "settings", "--from-literal=key=value")
        found.out("wait", "--for=jsonpath={.status.phase}=Failed", "pod/done", "--timeout=120s")
        found.out(
            "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/again",
            "--timeout=120s",
        )  # fmt: skip
        found.until(lambda: found.run("get", "pod", "file-n1").returncode == 0)
        pods = ("pod/again", "pod/talker", "pod/file-n1")
        found.out("wait", "--for=condition=Ready", *pods, "--timeout=120s")
        yield found


@pytest.mark.parametrize("version", [NEWEST, *OLDER])
@pytest.mark.parametrize("transcript", ["get", "logs", "cluster"])
def test_output(agent: KubectlAgent, transcript: str, version: str) -> None:
    lacking = LACKING.get(version, ())
    changes = differences(agent, transcript, version=version, without=lacking)
    assert not changes, changes


def test_output_of_the_newest_kubectl(agent: KubectlAgent) -> None:
    changes = differences(agent, "newest")
    assert not changes, changes


def test_usage(agent: KubectlAgent) -> None:
    """Only the figures differ between runs."""
    agent.until(lambda: "talker" in agent.run("top", "pod").stdout)
    figures = r"\d+m +\d+Mi"
    head, *rows = agent.out("top", "pod", "--sort-by=memory").splitlines()
    assert head.split() == ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert sorted(row.split()[0] for row in rows) == ["again", "file-n1", "talker"]
    assert all(re.fullmatch(rf"\S+ +{figures} *", row) for row in rows), rows
    by_label = agent.out("top", "pod", "-l", "app=talk", "--containers", "--no-headers")
    [one, two] = by_label.splitlines()
    assert re.fullmatch(rf"talker +one +{figures} *", one)
    assert re.fullmatch(rf"talker +two +{figures} *", two)
    *_, line, total = agent.out("top", "pod", "-A", "--sum", "--no-headers").splitlines()
    assert line.split() == ["________", "________"]
    assert re.fullmatch(rf" +{figures} *", total)
    [node] = agent.out(
        "top", "node", "-l", "kubernetes.io/hostname=n1", "--no-headers"
    ).splitlines()
    assert re.fullmatch(r"n1 +\d+m +\d+% +\d+Mi +\d+% *", node)


def test_the_rights_of_a_service_account(agent: KubectlAgent) -> None:
    account = "system:serviceaccount:default:default"
    lines = masked(agent.out("auth", "can-i", "--list", "--as", account))
    reviews = "authentication.k8s.io", "authorization.k8s.io"
    assert lines[:4] == [
        "Resources Non-Resource URLs Resource Names Verbs",
        f"selfsubjectreviews.{reviews[0]} [] [] [create]",
        f"selfsubjectaccessreviews.{reviews[1]} [] [] [create]",
        f"selfsubjectrulesreviews.{reviews[1]} [] [] [create]",
    ]
    assert "[/healthz] [] [get]" in lines
    token = agent.out("create", "token", "default", "--duration=10m", "--audience=robots")
    assert token.count(".") == 2
    # The token is for another audience, so this API does not accept it.
    refused = agent.run("auth", "whoami", "--token", token.strip(), KUBECONFIG=without_user(agent))
    assert refused.stderr == "error: You must be logged in to the server (Unauthorized)\n"
    token = agent.out("create", "token", "default")
    answer = agent.run("auth", "whoami", "--token", token.strip(), KUBECONFIG=without_user(agent))
    assert masked(answer.stdout)[:2] == ["ATTRIBUTE VALUE", f"Username {account}"]


def without_user(agent: KubectlAgent) -> str:
    """Return the path of a kubeconfig without credentials."""
    content = agent.out("config", "view", "--raw", "--flatten", "-o", "json")
    document = json.loads(content)
    document["users"] = [{"name": one["name"], "user": {}} for one in document["users"]]
    path = agent.work / "anonymous.kubeconfig"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_explain_recursively(agent: KubectlAgent, version: str) -> None:
    lines = agent.run("explain", "pod", "--recursive", version=version).stdout.splitlines()
    assert lines[:2] == ["KIND:       Pod", "VERSION:    v1"]
    assert "      terminationMessagePolicy\t<string>" in lines
    assert "    nodeSelector\t<map[string]string>" in lines
    enumerated = lines.index("    restartPolicy\t<string>") + 1
    enum = "    enum: Always, Never, OnFailure"
    assert (lines[enumerated] == enum) is (version == NEWEST)


def test_versions(agent: KubectlAgent) -> None:
    document = json.loads(agent.out("version", "-o", "json"))
    assert document["serverVersion"]["gitVersion"].startswith("v1.36.0+podtui-")
    client, kustomize, server = agent.out("version").splitlines()
    assert client.startswith("Client Version: v1.33.")
    assert kustomize.startswith("Kustomize Version: ")
    assert server == f"Server Version: {document['serverVersion']['gitVersion']}"


def test_events_are_watched(agent: KubectlAgent) -> None:
    with agent.start("events", "--for", "configmap/settings", "--watch") as process:
        assert process.stdout is not None
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "settings.1"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "default",
            },
            "type": "Normal",
            "reason": "Read",
            "message": "It was read",
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        agent.out("create", "-f", "-", text=json.dumps(event))
        [head, row] = masked(process.stdout.readline() + process.stdout.readline())
    assert head == "LAST SEEN TYPE REASON OBJECT MESSAGE"
    assert row == "AGE Normal Read ConfigMap/settings It was read"


def test_logs_are_followed_from_several_pods(agent: KubectlAgent) -> None:
    flags = ("--all-containers", "--prefix", "--tail=1")
    with agent.start("logs", "-f", "-l", "app in (talk,again)", *flags) as process:
        assert process.stdout is not None
        lines = {process.stdout.readline() for _ in range(3)}
    assert lines == {
        "[pod/again/c] second\n", "[pod/talker/one] one-b\n", "[pod/talker/two] two-a\n"
    }  # fmt: skip


@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_discovery_is_kept_after_the_first_command(agent: KubectlAgent, version: str) -> None:
    for _ in range(2):
        done = agent.run("get", "pods", "-v=6", version=version)
    requests = re.findall(r"https://[^/\s]+(/[^\s\"?]*)", done.stderr)
    assert requests == ["/api/v1/namespaces/default/pods"], done.stderr


@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_a_file_with_unserved_kinds_is_applied_in_part(agent: KubectlAgent, version: str) -> None:
    kinds = ("v1 PodTemplate", "example.com/v1 Widget", "v1 Service", "apps/v1 Deployment")
    documents = [
        f"apiVersion: {group}\nkind: {kind}\nmetadata: {{name: x}}\n"
        for group, kind in map(str.split, (*kinds, "v1 ConfigMap"))
    ]
    (agent.work / "mixed.yaml").write_text("---\n".join(documents))
    done = agent.run("apply", "-f", "mixed.yaml", version=version)
    assert (done.returncode, done.stdout) == (1, "configmap/x created\n"), done.stderr
    for words in (
        'no matches for kind "PodTemplate" in version "v1"',
        'no matches for kind "Widget" in version "example.com/v1"',
        'Service "x" is invalid: spec.ports: Required value',
        'Deployment.apps "x" is invalid: [spec.selector: Required value',
    ):
        assert words in done.stderr
    # kubectl prunes objects of a list of kinds of its own.
    agent.out("label", "configmap", "x", "pruned=yes")
    (agent.work / "kept.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, labels: {pruned: 'yes'}}\n"
    )
    prune = ("apply", "--prune", "-l", "pruned=yes", "-f", "kept.yaml")
    done = agent.run(*prune, version=version)
    assert (done.returncode, "configmap/x pruned" in done.stdout) == (0, True), done.stderr


def test_a_server_in_a_pod_is_reached_through_the_api(agent: KubectlAgent) -> None:
    serve = "mkdir /w; echo hello > /w/index.html; exec httpd -f -p 8080 -h /w"
    agent.out("run", "web", "--image=busybox:1.36", "--port=8080", "--", "sh", "-c", serve)
    agent.out("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    path = "/api/v1/namespaces/default/pods/{}/proxy/"
    agent.until(lambda: agent.run("get", "--raw", path.format("web")).stdout == "hello\n")
    assert agent.out("get", "--raw", path.format("http:web:8080")) == "hello\n"
    refused = agent.run("get", "--raw", path.format("web:81"))
    assert re.search(
        r"error trying to reach service: dial tcp [\d.]+:81: connect: connection refused",
        refused.stderr,
    ), refused.stderr
    agent.out("expose", "pod", "web", "--name=shop", "--port=80", "--target-port=8080")
    service = path.replace("/pods/", "/services/")
    agent.until(lambda: agent.run("get", "--raw", service.format("shop")).stdout == "hello\n")
    assert agent.out("get", "--raw", service.format("http:shop:80")) == "hello\n"
    refused = agent.run("get", "--raw", service.format("shop:81"))
    assert 'no service port 81 found for service "shop"' in refused.stderr
    agent.out("delete", "service", "shop")
    agent.out("delete", "pod", "web", "--now")
