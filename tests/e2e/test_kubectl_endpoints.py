"""Endpoints of Services and disruption budgets with kubectl, in the words of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

IMAGE: Final = "docker.io/library/busybox:1.36"
DEPRECATED: Final = (
    "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\n"
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("endpoints"), node="n1", engine="memory") as started:
        yield started


def addresses(agent: KubectlAgent) -> list[str]:
    path = "jsonpath={.items[*].status.podIP}"
    return sorted(agent.out("get", "pods", "-l", "app=web", "-o", path).split())


def test_an_exposed_deployment_has_endpoints(agent: KubectlAgent) -> None:
    agent.out("create", "deployment", "web", f"--image={IMAGE}", "--replicas=2")
    agent.out("expose", "deployment", "web", "--port=80", "--target-port=8080")
    agent.out("rollout", "status", "deployment/web", "--timeout=60s")
    pods = addresses(agent)
    shown = ",".join(f"{ip}:8080" for ip in pods)
    agent.until(lambda: shown in agent.out("get", "endpoints", "web"))
    done = agent.run("get", "endpoints", "web")
    header, row = done.stdout.splitlines()
    assert header.split() == ["NAME", "ENDPOINTS", "AGE"]
    assert row.split()[:2] == ["web", shown]
    assert done.stderr == DEPRECATED
    slices = ("get", "endpointslices", "-l", "kubernetes.io/service-name=web")
    header, row = agent.out(*slices).splitlines()
    assert header.split() == ["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"]
    name, *columns = row.split()
    assert name.startswith("web-")
    assert columns[:2] == ["IPv4", "8080"]
    assert sorted(columns[2].split(",")) == pods
    described = agent.out("describe", "svc", "web")
    line = next(line for line in described.splitlines() if line.startswith("Endpoints:"))
    assert sorted(line.split()[1].split(",")) == sorted(f"{ip}:8080" for ip in pods)
    agent.out("scale", "deployment/web", "--replicas=1")
    agent.until(lambda: len(agent.out(*slices).splitlines()[1].split()[3].split(",")) == 1)
    agent.out("delete", "service", "web")
    agent.until(lambda: "No resources found" in agent.run(*slices).stderr)
    assert agent.run("get", "endpoints", "web").returncode == 1


def test_a_budget_allows_disruptions(agent: KubectlAgent) -> None:
    agent.out("create", "deployment", "kept", f"--image={IMAGE}", "--replicas=3")
    agent.out("create", "pdb", "kept", "--selector=app=kept", "--max-unavailable=1")
    agent.out("rollout", "status", "deployment/kept", "--timeout=60s")
    allowed = ("get", "pdb", "kept", "-o", "jsonpath={.status.disruptionsAllowed}")
    agent.until(lambda: agent.out(*allowed) == "1")
    header, row = agent.out("get", "pdb", "kept").splitlines()
    assert " ".join(header.split()) == (
        "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE"
    )
    assert row.split()[:4] == ["kept", "N/A", "1", "1"]
    agent.out("scale", "deployment/kept", "--replicas=1")
    agent.until(lambda: "Total: 1" in " ".join(agent.out("describe", "pdb", "kept").split()))


AUTOSCALER: Final = """\
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: scaled}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}
  minReplicas: 1
  maxReplicas: 3
  targetCPUUtilizationPercentage: 60
"""


def test_an_autoscaler_has_two_versions(agent: KubectlAgent) -> None:
    applied = "horizontalpodautoscaler.autoscaling/scaled"
    assert agent.out("apply", "-f", "-", text=AUTOSCALER) == f"{applied} created\n"
    assert agent.out("apply", "-f", "-", text=AUTOSCALER) == f"{applied} unchanged\n"
    row = agent.out("get", "hpa", "scaled").splitlines()[1].split()
    assert row[:6] == ["scaled", "Deployment/scaled", "cpu:", "<unknown>/60%", "1", "3"]
    path = "jsonpath={.apiVersion} {.spec.metrics[0].resource.target.averageUtilization}"
    assert agent.out("get", "hpa", "scaled", "-o", path) == "autoscaling/v2 60"
    older = ("get", "horizontalpodautoscalers.v1.autoscaling", "scaled", "-o")
    path = "jsonpath={.apiVersion} {.spec.targetCPUUtilizationPercentage}"
    assert agent.out(*older, path) == "autoscaling/v1 60"
    changed = AUTOSCALER.replace("60", "70")
    assert agent.out("apply", "-f", "-", text=changed) == f"{applied} configured\n"
    assert agent.out(*older, path) == "autoscaling/v1 70"
    explained = agent.out("explain", "hpa.spec", "--api-version=autoscaling/v1")
    assert "VERSION:    v1" in explained
    assert "targetCPUUtilizationPercentage\t<integer>" in explained
    assert "metrics\t<[]MetricSpec>" in agent.out("explain", "hpa.spec")
    agent.out("delete", "hpa", "scaled")
