"""A node of a cluster, on the real engine.

The cluster is a control plane of real Kubernetes binaries, if environment variables name them
(``make cluster-test``). Otherwise an agent that is its own cluster, with the simulated engine,
stands for it, with its API server, scheduler and controllers.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from control_plane import BINARIES, CONTROLLERS, control_plane, free_port, is_configured
from kubectl_agent import KubectlAgent, kubectl_agent

from conformance.golden import FOLDER
from conformance.images import images
from conformance.mirror import STEADY, compare_node, compare_records

NODE = "refnode"  # as in the recordings
RUN = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
needs_control_plane = pytest.mark.skipif(
    not is_configured(BINARIES), reason=f"{' and '.join(BINARIES)} are not set"
)
"""podtui's own API server does not connect to the kubelets of other nodes."""
needs_controllers = pytest.mark.skipif(
    is_configured(BINARIES) and not is_configured(CONTROLLERS),
    reason=f"{' and '.join(CONTROLLERS)} are not set",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """``kubeconfig`` has the credentials of the node; ``client_ca`` is the authority of the API
    server's certificate for kubelets, if there is one."""

    kubectl: KubectlAgent
    kubeconfig: Path
    client_ca: Path | None = None


@pytest.fixture(scope="module")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("cluster")
    if is_configured(BINARIES):
        with control_plane(base) as (kubectl, files):
            node = files.kubeconfig("node", f"system:node:{NODE}", "system:nodes")
            yield Cluster(kubectl, node, files.authority)
    else:
        with kubectl_agent(base, node="control", engine="memory") as agent:
            # Pods without a node go to the other one.
            agent.out("cordon", "control")
            yield Cluster(agent, Path(agent.environment["KUBECONFIG"]))


@pytest.fixture(scope="module")
def cluster(whole_cluster: Cluster) -> KubectlAgent:
    return whole_cluster.kubectl


@pytest.fixture(scope="module")
def member(
    whole_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubectlAgent]:
    base = tmp_path_factory.mktemp("member")
    settings = {
        "PODTUI_KUBELET_PORT": str(free_port()),
        "PODTUI_CLIENT_CA_FILE": str(whole_cluster.client_ca or ""),
    }
    config = str(whole_cluster.kubeconfig)
    with kubectl_agent(base, node=NODE, node_kubeconfig=config, settings=settings) as agent:
        yield agent


def pod(name: str, *command: str, **spec: Any) -> str:
    container = {"name": "c", "image": "busybox:1.36", "command": command or ["sh", "-c", RUN]}
    more = spec.pop("container", {})
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 5,
                "containers": [container | more],
                **spec,
            },
        }
    )


def field(agent: KubectlAgent, name: str, path: str) -> str:
    done = agent.run("get", "pod", name, "-o", f"jsonpath={{{path}}}")
    return done.stdout if done.returncode == 0 else ""


def until_field(agent: KubectlAgent, name: str, path: str, value: str) -> None:
    agent.until(lambda: field(agent, name, path) == value)


PHASE = ".status.phase"
RESTARTS = ".status.containerStatuses[0].restartCount"


def test_the_node_is_ready_and_has_a_lease(cluster: KubectlAgent, member: KubectlAgent) -> None:
    cluster.out("wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=60s")
    holder = "jsonpath={.spec.holderIdentity}"
    lease = ("get", "lease", "-n", "kube-node-lease", NODE, "-o", holder)
    cluster.until(lambda: cluster.run(*lease).stdout == NODE)
    # The agent's own API shows this node alone.
    assert member.out("get", "nodes", "-o", "name").split() == [f"node/{NODE}"]


def test_a_static_pod_has_a_mirror_pod_that_comes_back(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    file = member.folder / "web.yaml"
    file.write_text(pod("web"))
    name = f"web-{NODE}"
    until_field(cluster, name, PHASE, "Running")
    owner = ".metadata.ownerReferences[0].uid"
    node_uid = cluster.out("get", "node", NODE, "-o", "jsonpath={.metadata.uid}")
    assert field(cluster, name, owner) == node_uid
    uid = field(cluster, name, ".metadata.uid")
    cluster.out("delete", "pod", name, "--wait=false")
    cluster.until(lambda: field(cluster, name, ".metadata.uid") not in ("", uid))
    until_field(cluster, name, PHASE, "Running")
    assert field(cluster, name, RESTARTS) == "0"
    file.unlink()
    cluster.until(lambda: cluster.run("get", "pod", name).returncode == 1)
    assert member.run("get", "pod", name).returncode == 1


def mirror_problem(member: KubectlAgent, name: str) -> str:
    path = ".metadata.annotations.podtui\\.dev/mirror-problem"
    done = member.run("get", "pod", "-n", "later", name, "-o", f"jsonpath={{{path}}}")
    return done.stdout if done.returncode == 0 else ""


def test_the_copy_says_why_a_static_pod_has_no_mirror_pod(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    manifest = json.loads(pod("early"))
    manifest["metadata"]["namespace"] = "later"
    file = member.folder / "early.yaml"
    file.write_text(json.dumps(manifest))
    name = f"early-{NODE}"
    refused = 'refused: namespaces "later" not found'
    member.until(lambda: mirror_problem(member, name) == refused)
    in_namespace = ("get", "pod", "-n", "later", name)
    phase = (*in_namespace, "-o", f"jsonpath={{{PHASE}}}")
    member.until(lambda: member.run(*phase).stdout == "Running")
    assert cluster.run(*in_namespace).returncode == 1
    cluster.out("create", "namespace", "later")
    cluster.until(lambda: cluster.run(*phase).stdout == "Running")
    member.until(lambda: not mirror_problem(member, name))
    file.unlink()
    member.until(lambda: member.run(*in_namespace).returncode == 1)


def condition(agent: KubectlAgent, name: str, node: str = NODE) -> str:
    path = f'.status.conditions[?(@.type=="{name}")].status'
    return agent.run("get", "node", node, "-o", f"jsonpath={{{path}}}").stdout


def test_the_state_of_the_membership_is_in_the_copy_alone(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    names = ("ClusterUnavailable", "NodeRefused", "LeaseNotRenewed")
    for name in names:
        member.until(lambda name=name: condition(member, name) == "False")
    assert [condition(cluster, name) for name in names] == ["", "", ""]


CASES = STEADY if is_configured(BINARIES) else ("plain",)
"""The startup probe of ``sidecar`` has a timeout of one second, which a busy machine exceeds."""


def test_mirror_pods_events_and_node_are_those_of_a_kubelet(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    with images():
        for case in CASES:
            text = (FOLDER / case / "manifest.yaml").read_text()
            (member.folder / f"{case}.yaml").write_text(text)
        for case in CASES:
            with suppress(AssertionError):
                cluster.until(lambda case=case: not differences(cluster, case))
            assert differences(cluster, case) == []
        node = json.loads(cluster.out("get", "node", NODE, "-o", "json"))
        # The recording was made without a controller manager.
        lines = [str(line) for line in compare_node(node)]
        assert [line for line in lines if "node.alpha.kubernetes.io/ttl" not in line] == []
        for case in CASES:
            (member.folder / f"{case}.yaml").unlink()
        names = [f"{case}-{NODE}" for case in CASES]
        cluster.until(lambda: not cluster.run("get", "pod", *names).stdout)


def differences(cluster: KubectlAgent, case: str) -> list[str]:
    """Compare the cluster's objects of a case with the recorded ones."""
    done = cluster.run("get", "pod", f"{case}-{NODE}", "-o", "json")
    if done.returncode:
        return [done.stderr]
    about = f"--field-selector=involvedObject.name={case}-{NODE}"
    events = json.loads(cluster.out("get", "events", about, "-o", "json"))["items"]
    return [str(line) for line in compare_records(case, json.loads(done.stdout), events) or ()]


def test_pods_of_the_cluster_run_here_and_end(cluster: KubectlAgent, member: KubectlAgent) -> None:
    cluster.out("create", "configmap", "settings", "--from-literal=key=value")
    source = {"configMapKeyRef": {"name": "settings", "key": "key"}}
    variable = {"env": [{"name": "KEY", "valueFrom": source}]}
    cluster.out("create", "-f", "-", text=pod("app", container=variable))
    done = pod("done", "sh", "-c", "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace",
               restartPolicy="Never")  # fmt: skip
    cluster.out("create", "-f", "-", text=done)
    until_field(cluster, "app", PHASE, "Running")
    assert field(cluster, "app", ".spec.nodeName") == NODE
    until_field(cluster, "done", PHASE, "Succeeded")
    # Logs and commands of the pods are at the node.
    assert member.out("logs", "done") == "default"
    assert member.out("exec", "app", "--", "sh", "-c", "echo $KEY") == "value\n"
    events = cluster.out("get", "events", "--field-selector=involvedObject.name=app", "-o", "name")
    assert "event/app." in events
    fields = ("get", "pod", "app", "--show-managed-fields", "-o")
    managers = cluster.out(*fields, "jsonpath={.metadata.managedFields[*].manager}")
    assert "kubelet" in managers.split()
    cluster.out("delete", "pod", "app", "done")
    assert cluster.run("get", "pod", "app").returncode == 1
    member.until(lambda: not member.out("get", "pods", "-o", "name"))


def test_objects_cannot_be_changed_at_the_node(cluster: KubectlAgent, member: KubectlAgent) -> None:
    done = member.run("create", "-f", "-", text=pod("here"))
    assert done.returncode == 1
    assert "this node belongs to the cluster at https://" in done.stderr
    done = member.run("get", "deployments")
    assert done.returncode == 1
    assert "its deployments are there, not here" in done.stderr


def test_pods_run_on_while_the_api_server_is_away(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    cluster.out("create", "-f", "-", text=pod("stays"))
    until_field(cluster, "stays", PHASE, "Running")
    container = ".status.containerStatuses[0].containerID"
    before = field(cluster, "stays", container)
    cluster.processes[-1].kill()
    cluster.processes[-1].wait(timeout=60)
    (member.folder / "meanwhile.yaml").write_text(pod("meanwhile"))
    name = f"meanwhile-{NODE}"
    until_field(member, name, PHASE, "Running")
    member.until(lambda: condition(member, "ClusterUnavailable") == "True")
    cluster.launch()
    cluster.wait_for_node()
    until_field(cluster, name, PHASE, "Running")
    # The agent of the node is killed, too.
    member.kill()
    cluster.out("wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=60s")
    assert field(cluster, "stays", container) == before
    for pod_name in ("stays", name):
        assert field(cluster, pod_name, RESTARTS) == "0"
    cluster.out("delete", "pod", "stays")


@needs_controllers
def test_a_deployment_of_the_cluster_is_rolled_out_here(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    cluster.out(
        "create", "deployment", "web", "--image=busybox:1.36", "--replicas=4", "--", "sh", "-c", RUN
    )
    cluster.out("rollout", "status", "deployment/web", "--timeout=120s")
    cluster.out("set", "env", "deployment/web", "VERSION=2")
    cluster.out("rollout", "status", "deployment/web", "--timeout=120s")
    cluster.out("delete", "deployment", "web")
    member.until(lambda: "pod/web" not in member.out("get", "pods", "-o", "name"))


# --- with a real control plane only


@needs_control_plane
def test_the_api_server_reaches_the_kubelet(
    cluster: KubectlAgent, member: KubectlAgent, tmp_path: Path
) -> None:
    serve = "echo served > /tmp/x; echo started; exec httpd -f -p 8080 -h /tmp"
    cluster.out("create", "-f", "-", text=pod("server", "sh", "-c", serve))
    until_field(cluster, "server", PHASE, "Running")
    cluster.until(lambda: cluster.out("logs", "server") == "started\n")
    assert cluster.out("exec", "server", "--", "cat", "/tmp/x") == "served\n"
    assert cluster.out("exec", "-i", "server", "--", "cat", text="input") == "input"
    (tmp_path / "file").write_text("copied")
    cluster.out("cp", str(tmp_path / "file"), "server:/tmp/file")
    assert cluster.out("exec", "server", "--", "cat", "/tmp/file") == "copied"
    port = free_port()
    with cluster.start("port-forward", "server", f"{port}:8080") as forward:
        assert forward.stdout is not None
        assert "Forwarding" in forward.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/x", timeout=30) as response:
            assert response.read() == b"served\n"
    assert cluster.out("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/healthz") == "ok"
    cluster.out("delete", "pod", "server")


@needs_control_plane
def test_an_agent_with_the_credentials_of_another_node_says_so(
    whole_cluster: Cluster, tmp_path: Path
) -> None:
    settings = {"PODTUI_KUBELET_PORT": str(free_port())}
    config = str(whole_cluster.kubeconfig)
    with kubectl_agent(
        tmp_path, node="other", engine="memory", node_kubeconfig=config, settings=settings
    ) as agent:
        agent.until(lambda: condition(agent, "NodeRefused", "other") == "True")
        why = subprocess.run(
            [*agent.command[:-1], "why", "node/other"],
            env=agent.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert why.returncode == 1
    assert f"The credentials are those of the node {NODE}" in " ".join(why.stdout.split())


@needs_control_plane
@needs_controllers
def test_the_controllers_of_the_cluster_and_a_drain(
    cluster: KubectlAgent, member: KubectlAgent
) -> None:
    template = {
        "metadata": {"labels": {"app": "set"}},
        "spec": {**json.loads(pod("set"))["spec"], "nodeName": ""},
    }
    base = {"selector": {"matchLabels": {"app": "set"}}, "template": template}
    job = {
        "template": {"spec": {**json.loads(pod("job", "true"))["spec"], "restartPolicy": "Never"}}
    }
    for kind, version, spec in (
        ("StatefulSet", "apps/v1", {**base, "replicas": 2, "serviceName": "set"}),
        ("DaemonSet", "apps/v1", base),
        ("Job", "batch/v1", job),
    ):
        document = {"apiVersion": version, "kind": kind, "metadata": {"name": "set"}, "spec": spec}
        cluster.out("create", "-f", "-", text=json.dumps(document))
    cluster.out("rollout", "status", "statefulset/set", "--timeout=120s")
    cluster.out("rollout", "status", "daemonset/set", "--timeout=120s")
    cluster.out("wait", "--for=condition=Complete", "job/set", "--timeout=120s")
    cluster.out("drain", NODE, "--ignore-daemonsets", "--force", "--timeout=120s")
    cluster.out("uncordon", NODE)
    cluster.out("rollout", "status", "statefulset/set", "--timeout=120s")
    cluster.out("delete", "statefulset,daemonset,job", "set")
