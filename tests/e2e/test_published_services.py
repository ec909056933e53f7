"""Services and Ingresses on the real engine, from this machine."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from tempfile import gettempdir
from typing import Any

import psutil
import pytest
from docker_cli import docker
from kubectl_agent import KubectlAgent, kubectl_agent

from podtui.runtime.protocol import EngineInfo

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("declared")]
LOOPBACK = "127.0.0.1"
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: web
        image: busybox:1.36
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www']
        env: [{name: REVISION, value: "1"}]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1, timeoutSeconds: 30}
        lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec:
  type: NodePort
  sessionAffinity: ClientIP
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: web.localhost
    http:
      paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]
"""
UDP = """\
apiVersion: v1
kind: Service
metadata: {name: datagrams}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 9999, protocol: UDP}]
"""
ECHO = """\
import socket
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.bind(("", 9999))
print("ready", flush=True)
while True:
    data, client = sock.recvfrom(65536)
    sock.sendto(b"got " + data, client)
"""
OTHER_USER = """\
import encodings.idna, http.client, json, os, socket, ssl, sys
attempts = json.load(sys.stdin)
os.setgroups([]), os.setgid(65534), os.setuid(65534)

def connect(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)

def read(path):
    with open(path, "rb") as file:
        file.read(1)

def get(scheme, host, port, path):
    if scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=60, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().status

def attempt(name, *arguments):
    try:
        return globals()[name](*arguments)
    except OSError as error:
        return type(error).__name__

print(json.dumps([attempt(*each) for each in attempts]))
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("published"), node="n1") as started:
        started.out("apply", "-f", "-", text=WEB)
        started.out("wait", "--for=condition=Available", "deploy/web", "--timeout=300s")
        yield started


def get(port: int, address: str = LOOPBACK, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, port, timeout=60)
    try:
        connection.request("GET", "/", headers={"Host": host} if host else {})
        response = connection.getresponse()
        return response.status, response.read().decode().strip()
    finally:
        connection.close()


def field(agent: KubectlAgent, name: str, path: str) -> str:
    return agent.out("get", *name.split("/"), "-o", f"jsonpath={{{path}}}")


def node_port(agent: KubectlAgent, name: str) -> int:
    return int(field(agent, f"service/{name}", ".spec.ports[0].nodePort"))


def pods(agent: KubectlAgent) -> set[str]:
    names = field(agent, "pods", ".items[?(@.metadata.labels.app=='web')].metadata.name")
    return set(names.split())


def test_connections_spread_over_the_pods(agent: KubectlAgent) -> None:
    port = node_port(agent, "web")
    agent.until(lambda: len({get(port)[1] for _ in range(20)}) == 3)
    with ThreadPoolExecutor(20) as pool:
        answers = Counter(pool.map(lambda _: get(port), range(300)))
    assert {status for status, _ in answers} == {200}
    assert {name for _, name in answers} == pods(agent)
    assert min(answers.values()) > 50


def test_a_load_balancer(agent: KubectlAgent) -> None:
    ip = field(agent, "service/web", ".status.loadBalancer.ingress[0].ip")
    assert ip.startswith("127.")
    status, name = get(80 if ip != LOOPBACK else node_port(agent, "web"), ip)
    assert (status, name in pods(agent)) == (200, True)
    reasons = field(agent, "events", ".items[?(@.involvedObject.kind=='Service')].reason")
    assert {"EnsuringLoadBalancer", "EnsuredLoadBalancer"} <= set(reasons.split())


def test_session_affinity(agent: KubectlAgent) -> None:
    port = node_port(agent, "sticky")
    assert len({get(port) for _ in range(30)}) == 1


def test_an_ingress(agent: KubectlAgent) -> None:
    agent.until(lambda: bool(field(agent, "ingress/web", ".status.loadBalancer.ingress")))
    port = int(field(agent, "ingress/web", ".status.loadBalancer.ingress[0].ports[0].port"))
    status, name = get(port, host="web.localhost")
    assert (status, name in pods(agent)) == (200, True)
    status, text = get(port, host="other.localhost")
    assert status == 404
    assert "no rule is for the host other.localhost" in text
    assert field(agent, "ingress/web", ".spec.ingressClassName") == "podtui"


def test_datagrams(agent: KubectlAgent) -> None:
    agent.out("apply", "-f", "-", text=UDP)
    port = node_port(agent, "datagrams")
    label = "label=io.kubernetes.pod.name={}"
    # The image has no server for datagrams: it runs in the networks of the pods.
    servers = [
        subprocess.Popen(
            ["nsenter", "-t", pid, "-n", sys.executable, "-c", ECHO], stdout=subprocess.PIPE
        )
        for name in pods(agent)
        for sandbox in docker("ps", "-q", "--filter", label.format(name)).split()[:1]
        for pid in [docker("inspect", "-f", "{{.State.Pid}}", sandbox).strip()]
    ]
    try:
        # A datagram may go to any pod: each must have its server.
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
        assert len(servers) == 3
        agent.until(lambda: datagram(port, b"hello") == b"got hello")
        assert datagram(port, b"x" * 1400) == b"got " + b"x" * 1400
    finally:
        for server in servers:
            server.kill()
            server.communicate()
    agent.out("delete", "service", "datagrams")


def datagram(port: int, data: bytes) -> bytes:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect((LOOPBACK, port))
        client.send(data)
        try:
            return client.recv(65536)
        except OSError:
            return b""


def test_a_node_port_in_use_is_reported_and_tried_again(agent: KubectlAgent) -> None:
    port = next(number for number in range(32700, 32767) if is_free(number))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((LOOPBACK, port))
        other.listen()
        ports = {"port": 80, "targetPort": 8080, "nodePort": port}
        spec = {"type": "NodePort", "selector": {"app": "web"}, "ports": [ports]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late"}}
        agent.out("apply", "-f", "-", text=json.dumps({**service, "spec": spec}))
        agent.until(lambda: "NodePortUnavailable" in agent.out("events", "--for", "service/late"))
    agent.until(lambda: accepts(port))
    assert get(port)[0] == 200
    agent.out("delete", "service", "late")
    agent.until(lambda: not accepts(port))


def is_free(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((LOOPBACK, port)) != 0


def accepts(port: int) -> bool:
    return not is_free(port)


def test_a_rollout_loses_no_request(agent: KubectlAgent) -> None:
    port = node_port(agent, "web")
    before, ended = pods(agent), threading.Event()
    answers: list[tuple[int, str]] = []
    failures: list[Exception] = []

    def client() -> None:
        while not ended.is_set():
            try:
                answers.append(get(port))
            except (OSError, http.client.HTTPException) as error:
                failures.append(error)
            time.sleep(0.05)

    threads = [threading.Thread(target=client) for _ in range(20)]
    for thread in threads:
        thread.start()
    try:
        agent.out("set", "env", "deploy/web", "REVISION=2")
        agent.out("rollout", "status", "deploy/web", "--timeout=300s")
        agent.until(lambda: not pods(agent) & before)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert {status for status, _ in answers} == {200}
    assert {name for _, name in answers} >= pods(agent)
    assert len(answers) > 100


def test_a_killed_agent_publishes_again_at_the_same_addresses(agent: KubectlAgent) -> None:
    published = ".metadata.annotations.podtui\\.dev/published"
    before = field(agent, "service/web", published)
    agent.kill()
    port = node_port(agent, "web")
    agent.until(lambda: accepts(port))
    agent.until(lambda: get(port)[0] == 200)
    assert field(agent, "service/web", published) == before


def test_what_kubectl_offers(agent: KubectlAgent) -> None:
    agent.out("expose", "deploy/web", "--name=exposed", "--port=8080")
    with agent.start("port-forward", "service/exposed", ":8080") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.partition(" -> ")[0].rpartition(":")[2])
        assert get(port)[0] == 200
    agent.out(
        "run", "solo", "--image=busybox:1.36", "--image-pull-policy=IfNotPresent", "--port=8080",
        "--expose", "--command", "--", "httpd", "-f", "-p", "8080",
    )  # fmt: skip
    agent.out("wait", "--for=condition=Ready", "pod/solo", "--timeout=120s")
    assert field(agent, "service/solo", ".spec.selector.run") == "solo"
    root = "/api/v1/namespaces/default"
    agent.until(lambda: bool(field(agent, "endpoints/exposed", ".subsets[0].addresses")))
    for path in ("services/exposed:8080", "services/web:http", f"pods/{min(pods(agent))}:8080"):
        assert agent.out("get", "--raw", f"{root}/{path}/proxy/").strip() in pods(agent)
    assert "is running at https://127.0.0.1:" in agent.out("cluster-info")
    agent.out("delete", "service/exposed", "service/solo", "pod/solo", "--timeout=120s")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start programs as another user")
def test_another_user_of_the_machine_reaches_only_what_is_published(
    agent: KubectlAgent, engine_info: EngineInfo
) -> None:
    # Other users can reach the root directory, as they can in a home directory.
    for folder in agent.root.parents:
        if folder.is_relative_to(gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o011)
    private = ("podtui.sock", "kubeconfig", "records.db", "pki")
    assert all((agent.root / name).exists() for name in private)
    files = [["read", str(agent.root / name)] for name in private[1:]]
    [pod, *_] = pods(agent)
    label = f"label=io.kubernetes.pod.name={pod}"
    sandbox = docker("ps", "-q", "--filter", label).split()[0]
    pid = docker("inspect", "-f", "{{.State.Pid}}", sandbox).strip()
    refused = [
        ["connect", str(agent.root / private[0])],
        *files,
        # The network of a pod, in which the listeners for DNS and for the API are.
        ["read", f"/proc/{pid}/ns/net"],
    ]
    assert as_other_user(refused) == ["PermissionError"] * len(refused)

    url = agent.out("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    api = int(url.rpartition(":")[2])
    pods_path = "/api/v1/namespaces/default/pods"
    paths = ("/api", pods_path, f"{pods_path}/{pod}/exec?command=id", "/pods", "/metrics")
    answers = as_other_user([["get", "https", LOOPBACK, api, path] for path in paths])
    assert set(answers) == {403}, answers

    # Nothing else listens for the agent: no DNS, and nothing beyond loopback.
    agent.until(lambda: bool(field(agent, "ingress/web", ".status.loadBalancer.ingress")))
    ingress = field(agent, "ingress/web", ".status.loadBalancer.ingress[0].ports[0].port")
    ports = field(agent, "services", ".items[*].spec.ports[*].nodePort")
    load_balancer = field(agent, "service/web", ".status.loadBalancer.ingress[0].ip")
    published = {(LOOPBACK, int(port)) for port in (*ports.split(), ingress)}
    listening = listeners(agent.processes[-1].pid)
    assert listening - {(load_balancer, 80)} == {(LOOPBACK, api)} | published

    # All users of a machine share its loopback addresses, and its routes to the pods.
    ip = field(agent, f"pod/{pod}", ".status.podIP")
    shared = [(LOOPBACK, node_port(agent, "web"))]
    if engine_info.routable_pods:
        shared.append((ip, 8080))
    answers = as_other_user([["get", "http", *each, "/"] for each in shared])
    assert answers == [200] * len(shared)


def as_other_user(attempts: list[list[Any]]) -> list[Any]:
    """Try as another user. Return a status code, the name of an error, or None for each."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_USER],
        input=json.dumps(attempts),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listeners(pid: int) -> set[tuple[str, int]]:
    """Return the addresses at which a process and its children take connections and datagrams."""
    agent = psutil.Process(pid)
    return {
        (connection.laddr.ip, connection.laddr.port)
        for process in (agent, *agent.children(recursive=True))
        for connection in process.net_connections("inet")
        if not connection.raddr and connection.status in ("LISTEN", "NONE")
    }
