"""Programs in pods reach the API at its cluster address, with the account of their pod.

They run with the files of this machine, mounted into the pods: Python, the client libraries and
kubectl, whose in-cluster configuration is that of the Go client.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import yaml
from kubectl_agent import KubectlAgent, kubectl_agent
from real_kubectl import kubectl

from podtui.runtime.protocol import EngineInfo

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("declared")]
FILES: Final = Path(__file__).parent / "applications"
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", sys.base_prefix)
RBAC: Final = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, configmaps], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: operator}]
"""


@pytest.fixture(scope="module")
def agent() -> Iterator[KubectlAgent]:
    # The user of a rootless engine does not reach the folders of pytest.
    with TemporaryDirectory(prefix="podtui-api-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        with kubectl_agent(base, node="n1") as started:
            programs = base / "programs"
            programs.mkdir()
            shutil.copy(kubectl(), programs / "kubectl")
            for name in ("client.py", "operator.py"):
                shutil.copy(FILES / name, programs / name)
            started.out("apply", "-f", "-", text=RBAC)
            yield started


def pod(agent: KubectlAgent, name: str, *command: str, account: str = "reader") -> dict[str, Any]:
    """Return a pod that runs a command, with Python, the libraries and kubectl."""
    programs = str(agent.root.parent / "programs")
    packages = sysconfig.get_path("purelib")
    paths = {path: path for path in LIBRARIES if os.path.exists(path)}
    paths |= {"/programs": programs, "/packages": packages}
    paths = {target: readable(path, agent.root.parent) for target, path in paths.items()}
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [
            {"name": "PYTHONPATH", "value": "/packages"},
            {"name": "API", "value": "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"},
        ],
        "volumeMounts": [
            {"name": f"v{index}", "mountPath": path, "readOnly": True}
            for index, path in enumerate(paths)
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [
                {"name": f"v{index}", "hostPath": {"path": path}}
                for index, path in enumerate(paths.values())
            ],
        },
    }


def readable(path: str, folder: Path) -> str:
    """Return the path, or a copy in ``folder`` if other users cannot reach it: a rootless engine
    mounts only what its user can."""
    if all(parent.stat().st_mode & stat.S_IXOTH for parent in Path(path).parents):
        return path
    copy = folder / path.strip("/").replace("/", "-")
    if not copy.exists():
        unused = shutil.ignore_patterns("__pycache__", "site-packages", "test", "*.a")
        shutil.copytree(path, copy, symlinks=True, ignore=unused)
    return str(copy)


def python() -> str:
    return os.path.realpath(sys.executable)


def deployment(of: dict[str, Any]) -> str:
    meta = of["metadata"]
    template = {"metadata": {"labels": meta["labels"]}, "spec": of["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": meta["labels"]}, "template": template}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return json.dumps({**kind, "metadata": {"name": meta["name"]}, "spec": spec})


def test_service_variables_of_services_that_exist(agent: KubectlAgent) -> None:
    agent.out("create", "service", "clusterip", "before", "--tcp=8765:8080")
    address = agent.out("get", "service", "before", "-o", "jsonpath={.spec.clusterIP}")
    agent.out("apply", "-f", "-", text=json.dumps(pod(agent, "vars", "sleep", "100000")))
    agent.out("wait", "--for=condition=Ready", "pod/vars", "--timeout=120s")
    variables = dict(
        line.split("=", 1) for line in agent.out("exec", "vars", "--", "env").splitlines()
    )
    expected = {
        "BEFORE_SERVICE_HOST": address,
        "BEFORE_SERVICE_PORT": "8765",
        "BEFORE_PORT": f"tcp://{address}:8765",
        "BEFORE_PORT_8765_TCP": f"tcp://{address}:8765",
        "BEFORE_PORT_8765_TCP_PROTO": "tcp",
        "BEFORE_PORT_8765_TCP_PORT": "8765",
        "BEFORE_PORT_8765_TCP_ADDR": address,
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "API": "10.96.0.1:443",
    }
    assert expected.items() <= variables.items()
    agent.out("delete", "service/before", "pod/vars", "--timeout=60s")


def test_kubectl_in_a_pod_has_the_rights_of_its_account(agent: KubectlAgent) -> None:
    manifest = pod(agent, "cli", "sleep", "100000")
    agent.out("apply", "-f", "-", text=json.dumps(manifest))
    agent.out("wait", "--for=condition=Ready", "pod/cli", "--timeout=120s")
    run = ("exec", "cli", "--", "/programs/kubectl")
    assert agent.out(*run, "get", "pods", "cli", "-o", "name") == "pod/cli\n"
    assert agent.out(*run, "auth", "can-i", "watch", "configmaps") == "yes\n"
    whoami = agent.out(*run, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert whoami == "system:serviceaccount:default:reader"
    openid = json.loads(agent.out(*run, "get", "--raw", "/.well-known/openid-configuration"))
    assert openid["jwks_uri"] == "https://10.96.0.1/openid/v1/jwks"
    refused = agent.run(*run, "get", "secrets")
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        'Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:default:'
        'reader" cannot list resource "secrets" in API group "" in the namespace "default"\n'
    )
    server = ("--server=https://10.96.0.1", f"--certificate-authority={TOKEN_PATH}/ca.crt")
    wrong = agent.run(*run, "get", "pods", *server, "--token=x")
    assert "You must be logged in to the server" in wrong.stderr
    for host in ("kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"):
        command = f"--server=https://{host} {server[1]} --token=$(cat {TOKEN_PATH}/token)"
        by_name = ("exec", "cli", "--", "sh", "-c", f"/programs/kubectl get pods {command}")
        assert "cli " in agent.out(*by_name), host
    agent.out("delete", "pod/cli", "--timeout=60s")


def test_a_client_survives_new_tokens_keys_and_certificates(agent: KubectlAgent) -> None:
    # Without -P, operator.py would replace a module of the standard library.
    manifest = pod(agent, "client", python(), "-P", "/programs/client.py")
    agent.out("apply", "-f", "-", text=deployment(manifest))
    agent.out("wait", "--for=condition=Available", "deploy/client", "--timeout=120s")

    def lines() -> list[str]:
        return agent.out("logs", "deploy/client").splitlines()

    agent.until(lambda: "listed" in lines(), 120)
    who = 'User "system:serviceaccount:default:reader" cannot list resource'
    first = lines()
    assert first[0].startswith("pods client-")
    assert first[1:3] == [
        f'403 secrets is forbidden: {who} "secrets" in API group "" in the namespace "default"',
        f'403 nodes is forbidden: {who} "nodes" in API group "" at the cluster scope',
    ]
    agent.out("create", "configmap", "before")
    agent.until(lambda: "ADDED before" in lines(), 60)
    # All keys but the authority's: tokens and certificates of before are not valid any more.
    agent.processes[-1].kill()
    agent.processes[-1].wait(timeout=120)
    for name in ("server.pem", "ca.crt", "sa.key"):
        (agent.root / "pki" / name).unlink()
    agent.launch()
    agent.wait_for_node()
    agent.wait_for_pods()
    agent.out("create", "configmap", "after")
    begin = len(lines())
    # The library reads the token again after a minute.
    agent.until(lambda: "listed" in lines()[begin:], 240)
    agent.out("create", "configmap", "later")
    agent.until(lambda: "ADDED later" in lines(), 60)
    [client] = json.loads(agent.out("get", "pods", "-l", "app=client", "-o", "json"))["items"]
    [state] = client["status"]["containerStatuses"]
    assert state["restartCount"] == 0
    # What failed meanwhile was refused by the new key, or had no server.
    assert "401 Unauthorized" in lines()[begin - 2 :] or "MaxRetryError" in lines()
    agent.out("delete", "deploy/client", "configmap/before", "configmap/after", "configmap/later")


def test_a_kopf_operator_in_a_pod(agent: KubectlAgent) -> None:
    command = (python(), "-m", "kopf", "run", "--standalone", "--namespace=default")
    manifest = pod(agent, "operator", *command, "/programs/operator.py", account="operator")
    agent.out("apply", "-f", "-", text=deployment(manifest))
    agent.out("wait", "--for=condition=Available", "deploy/operator", "--timeout=120s")
    agent.out("create", "configmap", "home", "--from-literal=index.html=hello")
    agent.out("label", "configmap", "home", "site=yes")
    agent.until(lambda: agent.run("get", "deploy/home").returncode == 0, 120)
    agent.out("wait", "--for=condition=Available", "deploy/home", "--timeout=120s")
    agent.out("delete", "configmap", "home", "--timeout=120s")
    assert agent.out("get", "configmap", "home-was-here", "-o", "name")
    assert "Traceback" not in agent.out("logs", "deploy/operator")
    agent.out("delete", "deploy/operator", "configmap/home-was-here")


def test_a_static_pod_reaches_the_api_with_its_account(agent: KubectlAgent) -> None:
    manifest = pod(agent, "static", "sleep", "100000")
    path = agent.folder / "static.yaml"
    path.write_text(yaml.safe_dump(manifest))
    ready = ("wait", "--for=condition=Ready", "pod/static-n1", "--timeout=1s")
    agent.until(lambda: agent.run(*ready).returncode == 0, 120)
    run = ("exec", "static-n1", "--", "/programs/kubectl", "get", "pods", "-o", "name")
    assert "pod/static-n1\n" in agent.out(*run)
    path.unlink()
    agent.until(lambda: agent.run("get", "pod/static-n1").returncode != 0, 120)


def test_a_pod_with_the_network_of_the_machine_reaches_the_api(agent: KubectlAgent) -> None:
    manifest = pod(agent, "host", "sleep", "100000")
    manifest["spec"]["hostNetwork"] = True
    agent.out("apply", "-f", "-", text=json.dumps(manifest))
    agent.out("wait", "--for=condition=Ready", "pod/host", "--timeout=120s")
    run = ("exec", "host", "--", "/programs/kubectl", "get", "pods", "-o", "name")
    assert "pod/host\n" in agent.out(*run)
    agent.out("delete", "pod/host", "--timeout=60s")


def test_others_do_not_reach_the_listener_of_a_pod(agent: KubectlAgent) -> None:
    for name in ("one", "two"):
        manifest = pod(agent, name, "sleep", "100000")
        agent.out("apply", "-f", "-", text=json.dumps(manifest))
    agent.out("wait", "--for=condition=Ready", "pod/one", "pod/two", "--timeout=120s")
    listening = [
        line.split()[3]
        for line in agent.out("exec", "one", "--", "netstat", "-ltn").splitlines()
        if "127.96.0.1:" in line
    ]
    [address] = listening
    port = address.rpartition(":")[2]
    ip = agent.out("get", "pod/one", "-o", "jsonpath={.status.podIP}")
    for target in (ip, "127.96.0.1"):
        away = agent.run("exec", "two", "--", "nc", "-w", "5", "-z", target, port)
        assert away.returncode != 0, target
        with pytest.raises(OSError):  # noqa: PT011 - refused, or filtered
            socket.create_connection((target, int(port)), timeout=5).close()
    # In the pod, it is reached by the names of the cluster only: by this address, all are refused.
    inside = agent.run(
        "exec", "one", "--", "/programs/kubectl", "get", "pods", "--token=x",
        f"--server=https://127.96.0.1:{port}", "--insecure-skip-tls-verify",
    )  # fmt: skip
    assert "Error from server (Forbidden): unknown" in inside.stderr
    agent.out("delete", "pod/one", "pod/two", "--timeout=60s")


def test_a_path_that_the_user_of_a_rootless_engine_cannot_reach_is_named(
    agent: KubectlAgent, engine_info: EngineInfo
) -> None:
    if not engine_info.rootless:
        pytest.skip("the engine's user is root")
    private = agent.root.parent / "private"
    path = private / "data"
    path.mkdir(parents=True)
    private.chmod(0o700)
    manifest = pod(agent, "private", "sleep", "100000")
    manifest["spec"]["volumes"][0]["hostPath"]["path"] = str(path)
    agent.out("apply", "-f", "-", text=json.dumps(manifest))

    def is_named() -> bool:
        failures = [
            line
            for line in agent.out("events", "--for", "pod/private").splitlines()
            if " Failed " in line
        ]
        return any(str(path) in line and "permission denied" in line for line in failures)

    agent.until(is_named)
    agent.out("delete", "pod/private", "--timeout=60s")
