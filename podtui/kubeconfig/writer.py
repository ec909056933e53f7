"""Writes the kubeconfig of a node."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from podtui.kubeconfig.types import Cluster


def node_kubeconfig(cluster: Cluster, certificate: Path) -> bytes:
    """Return a kubeconfig for a cluster, with a file that has the client's certificate and key. The
    names in it are those that a kubelet writes."""
    given: dict[str, Any] = {
        "server": cluster.server,
        "certificate-authority": str(cluster.ca_file) if cluster.ca_file is not None else "",
        "certificate-authority-data": base64.b64encode(cluster.ca_data).decode(),
        "insecure-skip-tls-verify": cluster.insecure,
        "tls-server-name": cluster.tls_server_name,
        "proxy-url": cluster.proxy_url,
    }
    user = {"client-certificate": str(certificate), "client-key": str(certificate)}
    context = {"cluster": "default-cluster", "user": "default-auth", "namespace": "default"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "default-cluster",
                "cluster": {name: value for name, value in given.items() if value},
            }
        ],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": "default-context", "context": context}],
        "current-context": "default-context",
    }
    return yaml.safe_dump(document, sort_keys=False).encode()
