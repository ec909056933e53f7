"""A control plane of real Kubernetes binaries, whose paths are in environment variables:
``KUBE_APISERVER`` and ``ETCD``, and if set ``KUBE_CONTROLLER_MANAGER`` and ``KUBE_SCHEDULER``."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster_server import Authority
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubectl_agent import KubectlAgent

from podtui.kubelet.node.host import LocalHost

BINARIES: Final = ("KUBE_APISERVER", "ETCD")
CONTROLLERS: Final = ("KUBE_CONTROLLER_MANAGER", "KUBE_SCHEDULER")
SERVICES: Final = "10.111.0.0/16"
_FIRST_SERVICE: Final = "10.111.0.1"


def is_configured(names: Iterable[str]) -> bool:
    return all(map(os.environ.get, names))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class ControlPlane(KubectlAgent):
    """kubectl with the credentials of the cluster's administrator. `kill` and `launch` are those of
    the API server."""

    def wait_for_node(self) -> None:
        """Wait until the API server is ready: a control plane has no node."""
        self.until(lambda: self.run("get", "--raw", "/readyz").stdout == "ok")


class Files:
    """The certificates and kubeconfigs of a cluster in a directory."""

    def __init__(self, base: Path, port: int) -> None:
        self.base = base
        self.url = f"https://127.0.0.1:{port}"
        self._authority = Authority("cluster")
        self.authority = self.write("ca.crt", self._authority.pem)
        self.authority_key = self.write("ca.key", self._authority.key_pem)
        account = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.account_key = self.write(
            "sa.key",
            account.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def write(self, name: str, content: bytes) -> Path:
        path = self.base / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    def pair(self, name: str, user: str, *hosts: str, group: str = "") -> tuple[Path, Path]:
        groups = (group,) if group else ()
        certificate, key = self._authority.issue(user, *hosts, groups=groups)
        return self.write(f"{name}.crt", certificate), self.write(f"{name}.key", key)

    def kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        certificate, key = self.pair(name, user, group=group)
        text = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{self.url}", certificate-authority: {self.authority}}}}}]
users: [{{name: u, user: {{client-certificate: {certificate}, client-key: {key}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
        return self.write(f"{name}.conf", text.encode())


@contextmanager
def control_plane(base: Path) -> Iterator[tuple[ControlPlane, Files]]:
    """Start etcd, the API server and, if they are configured, controller manager and scheduler."""
    port, client, peer = free_port(), free_port(), free_port()
    files = Files(base, port)
    admin = files.kubeconfig("admin", "admin", "system:masters")
    serving, serving_key = files.pair(
        "apiserver", "kube-apiserver", "localhost", "127.0.0.1", _FIRST_SERVICE
    )
    kubelet, kubelet_key = files.pair("apiserver-kubelet", "apiserver", group="system:masters")
    etcd = f"http://127.0.0.1:{client}"
    command = (
        os.environ["KUBE_APISERVER"],
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        f"--advertise-address={LocalHost().facts().ips[0]}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--client-ca-file={files.authority}",
        f"--tls-cert-file={serving}",
        f"--tls-private-key-file={serving_key}",
        f"--service-account-key-file={files.account_key}",
        f"--service-account-signing-key-file={files.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={kubelet}",
        f"--kubelet-client-key={kubelet_key}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        "--allow-privileged",
    )
    environment = {**os.environ, "HOME": str(base), "KUBECONFIG": str(admin)}
    plane = ControlPlane(base / "pods", base / "root", base, environment, "", command)
    others: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        with (base / f"{Path(arguments[0]).name}.log").open("ab") as log:
            others.append(subprocess.Popen(arguments, stdout=log, stderr=log))

    try:
        start(
            os.environ["ETCD"],
            f"--data-dir={base / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        plane.launch()
        plane.wait_for_node()
        if not is_configured(CONTROLLERS):
            # What controllers would create.
            plane.out("create", "serviceaccount", "default")
            authority = f"--from-file=ca.crt={files.authority}"
            plane.out("create", "configmap", "kube-root-ca.crt", authority)
        if manager := os.environ.get("KUBE_CONTROLLER_MANAGER"):
            config = files.kubeconfig("manager", "system:kube-controller-manager")
            start(
                manager,
                f"--kubeconfig={config}",
                f"--service-account-private-key-file={files.account_key}",
                f"--root-ca-file={files.authority}",
                f"--cluster-signing-cert-file={files.authority}",
                f"--cluster-signing-key-file={files.authority_key}",
                "--use-service-account-credentials",
                "--leader-elect=false",
                f"--secure-port={free_port()}",
                "--bind-address=127.0.0.1",
            )
        if scheduler := os.environ.get("KUBE_SCHEDULER"):
            config = files.kubeconfig("scheduler", "system:kube-scheduler")
            start(
                scheduler,
                f"--kubeconfig={config}",
                "--leader-elect=false",
                f"--secure-port={free_port()}",
                "--bind-address=127.0.0.1",
            )
        yield plane, files
    finally:
        for process in [*others[1:], plane.processes[-1], *others[:1]]:
            process.terminate()
            process.wait(timeout=60)
