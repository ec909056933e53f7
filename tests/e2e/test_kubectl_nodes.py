"""Runtime classes, taints that evict, and the node's port, with kubectl on the real engine: the
steps of Kubernetes' own tests (``test/e2e/common/node/runtimeclass.go``,
``test/e2e/node/runtimeclass.go``, ``test/e2e/node/taints.go``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

KEY = "kubernetes.io/e2e-evict-taint-key"
TAINT = f"{KEY}=evictTaintVal:NoExecute"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("nodes"), node="n1") as found:
        yield found


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "command": ["sleep", "3600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


def runtime_class(name: str, handler: str, **fields: Any) -> dict[str, Any]:
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    return {**kind, "metadata": {"name": name}, "handler": handler, **fields}


def create(agent: KubectlAgent, *documents: dict[str, Any]) -> None:
    for document in documents:
        agent.out("create", "-f", "-", text=json.dumps(document))


def refusal(agent: KubectlAgent, document: dict[str, Any], *flags: str) -> str:
    done = agent.run("create", "-f", "-", *flags, text=json.dumps(document))
    assert done.returncode == 1, done.stdout
    return done.stderr


def handlers(agent: KubectlAgent) -> list[str]:
    path = "jsonpath={.status.runtimeHandlers[*].name}"
    return agent.out("get", "node", "n1", "-o", path).split()


def test_a_pod_of_a_class_that_does_not_exist_is_rejected(agent: KubectlAgent) -> None:
    words = 'pods "web" is forbidden: pod rejected: RuntimeClass "none" not found'
    document = pod("web", runtimeClassName="none")
    assert words in refusal(agent, document)
    assert words in refusal(agent, document, "--dry-run=server")
    create(agent, runtime_class("none", "runc"))
    agent.out("delete", "runtimeclass", "none")
    assert words in refusal(agent, document)
    assert "Pod Overhead set without corresponding RuntimeClass" in refusal(
        agent, pod("web", overhead={"cpu": "10m"})
    )


def test_a_pod_runs_with_the_runtime_of_its_class(agent: KubectlAgent) -> None:
    [handler, *_] = handlers(agent)
    overhead = {"podFixed": {"cpu": "10m", "memory": "1Mi"}}
    tolerations = [{"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}]
    scheduling = {"nodeSelector": {"foo": "bar", "fizz": "buzz"}, "tolerations": tolerations}
    create(agent, runtime_class("chosen", handler, overhead=overhead, scheduling=scheduling))
    agent.out("label", "node", "n1", "foo=bar", "fizz=buzz")
    agent.out("taint", "node", "n1", "foo=bar:NoSchedule")
    try:
        chosen = pod("chosen", runtimeClassName="chosen", nodeSelector={"foo": "bar"})
        create(agent, chosen)
        agent.out("wait", "--for=condition=Ready", "pod/chosen", "--timeout=120s")
    finally:
        agent.out("taint", "node", "n1", "foo-")
    spec = json.loads(agent.out("get", "pod", "chosen", "-o", "json"))["spec"]
    assert spec["overhead"] == overhead["podFixed"]
    assert spec["nodeSelector"] == scheduling["nodeSelector"]
    assert tolerations[0] in spec["tolerations"]
    assert "conflict: runtimeClass.scheduling.nodeSelector[foo] = bar" in refusal(
        agent, pod("web", runtimeClassName="chosen", nodeSelector={"foo": "other"})
    )
    agent.out("delete", "pod", "chosen")


def test_a_pod_whose_handler_the_engine_does_not_have_waits(agent: KubectlAgent) -> None:
    create(agent, runtime_class("unconfigured", "no-such-handler"))
    create(agent, pod("waits", runtimeClassName="unconfigured"))
    selected = "involvedObject.name=waits,reason=FailedCreatePodSandBox"
    events = ("get", "events", "--field-selector", selected, "-o", "jsonpath={.items[*].message}")
    agent.until(lambda: "no-such-handler" in agent.out(*events))
    assert all(name in agent.out(*events) for name in handlers(agent))
    assert agent.out("get", "pod", "waits", "-o", "jsonpath={.status.phase}") == "Pending"
    agent.out("delete", "pod", "waits")


def tolerating(name: str, **toleration: Any) -> dict[str, Any]:
    tolerations = [{"key": KEY, "operator": "Exists", "effect": "NoExecute", **toleration}]
    return pod(name, tolerations=tolerations)


def test_a_taint_evicts_the_pods_that_do_not_tolerate_it(agent: KubectlAgent) -> None:
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    create(agent, held, tolerating("long", tolerationSeconds=3600), tolerating("ever"))
    pods = ("pod/held", "pod/long", "pod/ever")
    agent.out("wait", "--for=condition=Ready", *pods, "--timeout=120s")
    agent.out("taint", "node", "n1", TAINT)
    condition = '{.status.conditions[?(@.type=="DisruptionTarget")].reason}'
    reason = ("get", "pod", "held", "-o", f"jsonpath={condition}")
    agent.until(lambda: agent.out(*reason) == "DeletionByTaintManager")
    phase = ("get", "pod", "held", "-o", "jsonpath={.status.phase}")
    agent.until(lambda: agent.out(*phase) == "Failed")
    assert agent.out(*reason) == "DeletionByTaintManager"
    agent.out("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    create(agent, tolerating("short", tolerationSeconds=1))
    agent.until(lambda: agent.run("get", "pod", "short").returncode == 1)
    agent.out("taint", "node", "n1", f"{KEY}-")
    messages = ("get", "events", "--field-selector", "reason=TaintManagerEviction",
                "-o", "jsonpath={range .items[*]}{.message};{end}")  # fmt: skip
    agent.until(lambda: "Cancelling deletion of Pod default/long;" in agent.out(*messages))
    assert set(agent.out(*messages).strip(";").split(";")) == {
        "Marking for deletion Pod default/held",
        "Marking for deletion Pod default/short",
        "Cancelling deletion of Pod default/long",
    }
    ready = agent.out("get", "pod", "long", "ever", "--no-headers", "-o", "name").split()
    assert ready == ["pod/long", "pod/ever"]
    agent.out("delete", "pod", "long", "ever")


def test_the_node_names_the_port_that_serves_the_kubelets_endpoints(agent: KubectlAgent) -> None:
    path = "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}"
    port = agent.out("get", "node", "n1", "-o", path)
    server = agent.out("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert server.rpartition(":")[2] == port
    for place in ("/metrics", f"/api/v1/nodes/n1:{port}/proxy/metrics"):
        assert "kubelet_running_pods" in agent.out("get", "--raw", place)
