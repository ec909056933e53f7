"""ResourceQuotas and LimitRanges with kubectl: an agent on the simulated engine, and the texts of a
real cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

NAMESPACE = "limited"
LIMITS = """
apiVersion: v1
kind: LimitRange
metadata: {name: lr}
spec:
  limits:
  - type: Container
    default: {cpu: 200m, memory: 64Mi}
    defaultRequest: {cpu: 100m}
    max: {cpu: 500m, memory: 256Mi}
    min: {cpu: 10m}
  - {type: Pod, max: {cpu: "1"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: c, image: "busybox:1.36", command: [sleep, "1000"]}]}
"""
USED = """\
Resource Used Hard
-------- ---- ----
count/secrets 0 3
pods 2 2
requests.cpu 200m 1
services 0 1
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("quotas"), node="n1", engine="memory") as started:
        started.out("create", "namespace", NAMESPACE)
        yield started


def test_a_namespace_with_quota_and_limits(agent: KubectlAgent) -> None:
    def out(command: str, text: str | None = None) -> str:
        answer = agent.out("-n", NAMESPACE, *command.split(), text=text)
        return re.sub(r"[ \t]+", " ", answer)

    def refusal(command: str) -> str:
        done = agent.run("-n", NAMESPACE, *command.split())
        assert done.returncode == 1, done.stdout
        return done.stderr

    out("create quota q --hard=pods=2,requests.cpu=1,services=1,count/secrets=3")
    agent.until(lambda: "pods: 0/2" in out("get quota"))
    assert refusal("run a --image=busybox:1.36") == (
        'Error from server (Forbidden): pods "a" is forbidden: failed quota: q: must specify'
        " requests.cpu for: a\n"
    )
    out("create -f -", LIMITS)
    out("create -f -", POD.replace("NAME", "a"))
    out("create deployment over --image=busybox:1.36 --replicas=3 -- sleep 1000")
    agent.until(lambda: "1/3" in out("get deployment over"))
    agent.until(lambda: "FailedCreate" in out("get events"))
    assert "exceeded quota: q, requested: pods=1" in out("get events")
    assert out("describe quota q").endswith(USED)
    described = out("describe namespace limited")
    assert " Container cpu 10m 500m 100m 200m -" in described
    assert " Pod cpu - 1 - - -" in described
    out("delete pod a --grace-period=0 --force")
    agent.until(lambda: "2/3" in out("get deployment over"))
    out("delete deployment over --cascade=foreground --grace-period=1")
    agent.until(lambda: "pods: 0/2" in out("get quota"))
