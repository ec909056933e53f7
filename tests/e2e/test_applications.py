"""Applications as people have them, on the real engine: applied with kubectl, with stand-in images.

The manifests in ``applications/`` have the shape of well-known examples. Their programs do not look
up names of Services.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from docker_cli import docker
from kubectl_agent import KubectlAgent, kubectl_agent
from real_kubectl import kubectl

from podtui.api.names import root_key
from podtui.api.urls import published_ports
from podtui.api.v1 import Service
from soak.engine import Engine
from soak.world import World

FILES: Final = Path(__file__).parent / "applications"
PODS: Final = {"voting": 6, "guestbook": 6, "shop": 6}
CRON_JOB: Final = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: script}
data: {run.sh: 'echo "backup of $TARGET"'}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
          - name: backup
            image: busybox:1.36
            imagePullPolicy: IfNotPresent
            command: [sh, /scripts/run.sh]
            env: [{name: TARGET, value: db}]
            volumeMounts: [{name: scripts, mountPath: /scripts}]
          volumes: [{name: scripts, configMap: {name: script}}]
"""
SET: Final = """\
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: db
        image: busybox:1.36
        imagePullPolicy: IfNotPresent
        command:
        - sh
        - -c
        - |
          [ -e /data/first ] || echo "$HOSTNAME $(cat /proc/sys/kernel/random/uuid)" > /data/first
          cat /data/first
          exec sleep 100000
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("applications"), node="n1") as started:
        yield started


def documents(agent: KubectlAgent, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(agent.out("get", *arguments, "-o", "json"))["items"]


@pytest.mark.parametrize("name", PODS)
def test_an_application_runs_and_goes_without_a_trace(agent: KubectlAgent, name: str) -> None:
    path = FILES / f"{name}.yaml"
    objects = [item for item in yaml.safe_load_all(path.read_text()) if item is not None]
    namespace = "shop" if name == "shop" else "default"
    scope = ("--namespace", namespace)
    applied = agent.out("apply", "-f", str(path))
    assert len(applied.splitlines()) == len(objects)
    agent.out("wait", "--for=condition=Available", "deploy", "--all", "--timeout=300s", *scope)
    pods = documents(agent, "pods", *scope)
    assert [pod["status"]["phase"] for pod in pods] == ["Running"] * PODS[name]
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in pods)
    for service in (item for item in objects if item["kind"] == "Service"):
        meta, spec = service["metadata"], service["spec"]
        label = f"kubernetes.io/service-name={meta['name']}"
        slices = documents(agent, "endpointslices", "-l", label, *scope)
        addresses = {
            endpoint["addresses"][0]
            for item in slices
            for endpoint in item["endpoints"]
            if endpoint["conditions"]["ready"]
        }
        selected = spec["selector"].items()
        assert addresses == {
            pod["status"]["podIP"] for pod in pods if selected <= pod["metadata"]["labels"].items()
        }
        assert addresses
    check_published(agent, objects, scope)
    if name == "voting":
        login = "login postgres secret-word\n"
        agent.until(lambda: agent.out("logs", "deploy/db") == login)
        assert agent.out("exec", "deploy/vote", "--", "cat", "/www/index.html") == "Cats or Dogs"
    agent.out("delete", "-f", str(path), "--timeout=120s")
    label = f"label=podtui.dev/root={root_key(str(agent.root))}"
    of_services = ("-l", "kubernetes.io/service-name,kubernetes.io/service-name!=kubernetes")
    agent.until(lambda: not documents(agent, "pods,rs", *scope), 120)
    agent.until(lambda: not documents(agent, "endpointslices", *of_services, *scope), 120)
    agent.until(lambda: not docker("ps", "-aq", "--filter", label), 120)
    agent.until(lambda: not docker("volume", "ls", "-q", "--filter", label), 120)


def check_published(
    agent: KubectlAgent, objects: list[dict[str, Any]], scope: tuple[str, ...]
) -> None:
    """Get the front pages of an application at the URLs that podtui shows."""
    names = [
        item["metadata"]["name"]
        for item in objects
        if item["kind"] == "Service" and item["spec"].get("type") in ("NodePort", "LoadBalancer")
    ]
    assert names
    for name in names:

        def urls(name: str = name) -> list[str]:
            text = agent.out("get", "service", name, "-o", "json", *scope)
            ports = published_ports(msgspec.json.decode(text, type=Service))
            return [port.url for port in ports if port.url]

        agent.until(lambda: bool(urls()))
        for url in urls():
            # The stand-in servers have no page but in one case.
            answer = status_of(url)
            assert answer in (200, 404), f"{name}: {url}"


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_cron_job_completes_each_minute(agent: KubectlAgent) -> None:
    agent.out("apply", "-f", "-", text=CRON_JOB)
    agent.out("create", "job", "by-hand", "--from=cronjob/backup")
    agent.out("wait", "--for=condition=Complete", "job/by-hand", "--timeout=120s")
    assert agent.out("logs", "job/by-hand") == "backup of db\n"

    def scheduled() -> list[str]:
        jobs = documents(agent, "jobs")
        return [job["metadata"]["name"] for job in jobs if job["metadata"]["name"] != "by-hand"]

    agent.until(lambda: bool(scheduled()), 90)
    [name, *_] = scheduled()
    agent.out("wait", "--for=condition=Complete", f"job/{name}", "--timeout=120s")
    assert agent.out("logs", f"job/{name}") == "backup of db\n"
    agent.until(lambda: "lastSuccessfulTime" in documents(agent, "cronjobs")[0]["status"])
    # The Job that was created by hand is a Job of the CronJob, too.
    agent.out("delete", "cronjob/backup", "configmap/script")
    agent.until(lambda: not documents(agent, "jobs,pods"))


def test_a_kopf_operator_on_this_machine(agent: KubectlAgent) -> None:
    log = agent.root.parent / "operator.log"
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces"]
    with log.open("w") as output:
        operator = subprocess.Popen(
            [*command, str(FILES / "operator.py")],
            stdout=output, stderr=output, env=agent.environment,
        )  # fmt: skip
    try:
        agent.out("create", "configmap", "home", "--from-literal=index.html=hello")
        agent.out("label", "configmap", "home", "site=yes")
        agent.until(lambda: bool(documents(agent, "deployments")), 120)
        agent.out("wait", "--for=condition=Available", "deploy/home", "--timeout=120s")
        agent.until(lambda: agent.out("logs", "deploy/home") == "hello\n")
        [made] = documents(agent, "deployments")
        [owner] = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ConfigMap", "home")
        agent.out("patch", "configmap", "home", "-p", '{"data": {"replicas": "2"}}')
        agent.out("wait", "--for=jsonpath={.status.readyReplicas}=2", "deploy/home",
                  "--timeout=120s")  # fmt: skip
        # The operator's finalizer holds the ConfigMap; its Deployment is collected with it.
        agent.out("delete", "configmap", "home", "--timeout=120s")
        assert agent.out("get", "configmap", "home-was-here", "-o", "name")
        agent.until(lambda: not documents(agent, "deployments,pods"), 120)
    finally:
        operator.terminate()
        operator.wait(120)
    assert "Traceback" not in log.read_text()
    agent.out("delete", "configmap", "home-was-here")


# --- data


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An agent on an engine of its own, in a network namespace: two cannot share a bridge. Needs
    root."""
    # Paths of sockets must be short.
    engine = Engine(Path(tempfile.mkdtemp(prefix="podtui-engine-")), ("unshare", "--net"))
    found = World(tmp_path / "world", engine, 0)
    try:
        engine.start()
        engine.load_image()
        found.start()
        yield found
    finally:
        if found.alive:
            found.stop()
        engine.remove()


class Kubectl:
    def __init__(self, world: World) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(world.root / "kubeconfig")}

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl(), *arguments], input=text, env=self._environment,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def out(self, *arguments: str, text: str = "") -> str:
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout


def until(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met"
        time.sleep(0.3)


def test_data_of_claims_survives_kills_restarts_and_new_sets(world: World) -> None:
    client = Kubectl(world)
    containers: dict[str, str] = {}

    def settled() -> dict[str, str]:
        """Wait until both pods are ready; return what the pods have in their claims."""
        until(lambda: client.run("get", "--raw", "/readyz").returncode == 0)
        ready = ("get", "statefulset", "db", "-o", "jsonpath={.status.readyReplicas}")
        until(lambda: client.run(*ready).stdout == "2" and running() == {"db-0", "db-1"})
        return {name: client.out("exec", name, "--", "cat", "/data/first") for name in running()}

    def running() -> set[str]:
        nonlocal containers
        found = [one for one in world.containers() if (one.name, one.state) == ("db", "running")]
        containers = {one.pod: one.id for one in found}
        return set(containers)

    until(lambda: client.run("get", "--raw", "/readyz").returncode == 0)
    client.out("apply", "-f", "-", text=SET)
    data = settled()
    assert [text.split()[0] for _, text in sorted(data.items())] == ["db-0", "db-1"]

    before = containers
    world.kill()
    world.start()
    assert settled() == data
    assert containers == before, "a restart of the agent restarts no container"

    world.engine.stop()
    world.engine.start()
    until(lambda: world.node_condition()[0] == "True")
    assert settled() == data
    assert containers != before

    client.out("delete", "pod", "db-0", "--timeout=120s")
    assert settled() == data

    client.out("delete", "statefulset", "db", "--timeout=120s")
    until(lambda: not running())
    claims = ("get", "pvc", "-o", "jsonpath={.items[*].status.phase}")
    assert client.out(*claims) == "Bound Bound"
    client.out("apply", "-f", "-", text=SET)
    assert settled() == data

    client.out("delete", "-f", "-", text=SET)
    client.out("delete", "pvc", "--all", "--timeout=120s")
    until(lambda: client.out("get", "pv", "-o", "name") == "")
    until(lambda: not world.containers() and not world.engine.volumes(world.label))
