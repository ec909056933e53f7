"""Names of Services, and names of others, as programs in pods resolve them.

The resolver of the node is one of this test. It has the usual port, and so the test must be root.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Final

import dns.message
import dns.rcode
import dns.rrset
import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

pytestmark = pytest.mark.engine
RESOLVER: Final = "127.53.7.1"
OBJECTS: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: db-0, labels: {app: db}}
spec:
  hostname: db-0
  subdomain: db
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
  - name: c
    image: busybox:1.36
    imagePullPolicy: Never
    command: [sh, -c, httpd -p 8080 -h /; exec sleep 100000]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  hostAliases: [{ip: 10.96.7.7, hostnames: [alias]}]
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
  - {name: c, image: "busybox:1.36", imagePullPolicy: Never, command: [sleep, "100000"]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.7.7, selector: {app: db}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: ext}
spec: {type: ExternalName, externalName: www.example.test}
"""


def answer_queries(sock: socket.socket) -> None:
    """Answer names below ``example.test``; no other names exist. An empty packet
    ends it."""
    while True:
        data, address = sock.recvfrom(4096)
        if not data:
            return
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query, recursion_available=True)
        name = query.question[0].name
        if not name.to_text().endswith("example.test."):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif query.question[0].rdtype == 1:
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.7"))
        sock.sendto(answer.to_wire(), address)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    base = tmp_path_factory.mktemp("names")
    file = base / "resolv.conf"
    file.write_text(f"nameserver {RESOLVER}\nsearch lan.test\n")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.MonkeyPatch.context() as patch,
    ):
        sock.bind((RESOLVER, 53))
        resolver = threading.Thread(target=answer_queries, args=(sock,), daemon=True)
        resolver.start()
        patch.setenv("PODTUI_RESOLV_CONF", str(file))
        with kubectl_agent(base, node="n1") as started:
            started.out("apply", "-f", "-", text=OBJECTS)
            ready = ("wait", "--for=condition=Ready", "pod/db-0", "pod/client", "--timeout=240s")
            done = started.run(*ready, seconds=300)
            assert done.returncode == 0, done.stderr
            yield started
        sock.sendto(b"", (RESOLVER, 53))
        resolver.join(60)


def in_pod(agent: KubectlAgent, *command: str) -> str:
    done = agent.run("exec", "client", "--", *command)
    return done.stdout + done.stderr


def test_pods_have_the_cluster_s_name_server(agent: KubectlAgent) -> None:
    assert sorted(in_pod(agent, "cat", "/etc/resolv.conf").splitlines()) == [
        "nameserver 10.96.0.10",
        "options ndots:5",
        "search default.svc.cluster.local svc.cluster.local cluster.local lan.test",
    ]
    assert "MissingClusterDNS" not in agent.out("get", "events", "-A")


def test_every_kind_of_name(agent: KubectlAgent) -> None:
    pod_ip = agent.out("get", "pod", "db-0", "-o", "jsonpath={.status.podIP}")
    reverse = ".".join(reversed(pod_ip.split("."))) + ".in-addr.arpa"
    dashed = pod_ip.replace(".", "-")
    for kind, name, expected in (
        ("a", "web.default.svc.cluster.local", "10.96.7.7"),
        ("a", "db.default.svc.cluster.local", pod_ip),
        ("a", "db-0.db.default.svc.cluster.local", pod_ip),
        ("a", "ext.default.svc.cluster.local", "192.0.2.7"),
        ("a", f"{dashed}.default.pod.cluster.local", pod_ip),
        ("a", "kube-dns.kube-system.svc.cluster.local", "10.96.0.10"),
        ("a", "kubernetes.default.svc.cluster.local", "10.96.0.1"),
        ("a", "www.example.test", "192.0.2.7"),
        ("srv", "_http._tcp.web.default.svc.cluster.local", "web.default.svc.cluster.local"),
        ("srv", "_sql._tcp.db.default.svc.cluster.local", "db-0.db.default.svc.cluster.local"),
        ("cname", "ext.default.svc.cluster.local", "www.example.test"),
        ("txt", "dns-version.cluster.local", "1.1.0"),
        ("ptr", "7.7.96.10.in-addr.arpa", "web.default.svc.cluster.local"),
        ("ptr", reverse, "db-0.db.default.svc.cluster.local"),
        ("a", "no.default.svc.cluster.local", "NXDOMAIN"),
        ("a", "no.such.name.test", "NXDOMAIN"),
    ):
        output = in_pod(agent, "nslookup", f"-type={kind}", name)
        assert expected in output.split("\n\n", 1)[-1], (kind, name, output)


def test_short_names_as_programs_use_them(agent: KubectlAgent) -> None:
    for name, expected in (
        ("web", "10.96.7.7"),
        ("web.default", "10.96.7.7"),
        ("web.default.svc", "10.96.7.7"),
        ("kubernetes", "10.96.0.1"),
        ("ext", "192.0.2.7"),
        ("www.example.test", "192.0.2.7"),
    ):
        assert f"PING {name} ({expected})" in in_pod(agent, "ping", "-c1", "-W1", name), name


def reach(agent: KubectlAgent, host: str) -> tuple[int, str]:
    """Return the exit code of ``podtui why --reach``, and its first line."""
    command = ("why", "client", "--reach", host, "--root-dir", str(agent.root))
    done = subprocess.run([sys.executable, "-m", "podtui", *command], capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).partition("\n")[0]


def test_names_and_ports_are_asked_from_inside_a_pod(agent: KubectlAgent) -> None:
    web = "web.default.svc.cluster.local is 10.96.7.7"
    pod_ip = agent.out("get", "pod", "db-0", "-o", "jsonpath={.status.podIP}")
    for host, code, expected in (
        ("web", 0, web),
        ("web:80", 0, f"{web}, port 80 accepted the connection in "),
        ("web:81", 1, f"{web}, port 81 refused the connection"),
        ("db-0.db:8080", 0, f"db-0.db.default.svc.cluster.local is {pod_ip}, port 8080 accepted"),
        ("db:5432", 1, f"db.default.svc.cluster.local is {pod_ip}, port 5432 refused"),
        ("alias:80", 0, "alias is 10.96.7.7, port 80 accepted"),
        ("10.96.7.7:80", 0, "10.96.7.7, port 80 accepted"),
        ("www.example.test", 0, "www.example.test is 192.0.2.7"),
        ("webb:80", 1, "webb does not exist (NXDOMAIN from 10.96.0.10)"),
        ("localhost:1", 1, "localhost is 127.0.0.1, ::1; port 1: 127.0.0.1 refused"),
    ):
        ended, line = reach(agent, host)
        assert ended == code, (host, line)
        assert line.startswith(expected), (host, line)


def test_an_endpoint_that_is_gone_has_no_name(agent: KubectlAgent) -> None:
    agent.out("delete", "pod", "db-0", "--now")
    name = "db-0.db.default.svc.cluster.local"
    agent.until(lambda: "NXDOMAIN" in in_pod(agent, "nslookup", "-type=a", name))


def test_cluster_info_lists_the_name_server(agent: KubectlAgent) -> None:
    output = agent.out("cluster-info")
    assert "CoreDNS" in output
    assert "/api/v1/namespaces/kube-system/services/kube-dns:dns/proxy" in output
