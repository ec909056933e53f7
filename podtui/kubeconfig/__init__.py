"""Kubeconfig files, merged as kubectl does it: the selected cluster and its credentials."""

from podtui.kubeconfig.loading import choose, load
from podtui.kubeconfig.types import (
    AuthInfo,
    Cluster,
    Context,
    ExecPlugin,
    Impersonation,
    Kubeconfig,
    KubeconfigError,
    Target,
)
from podtui.kubeconfig.writer import node_kubeconfig

__all__ = [
    "AuthInfo",
    "Cluster",
    "Context",
    "ExecPlugin",
    "Impersonation",
    "Kubeconfig",
    "KubeconfigError",
    "Target",
    "choose",
    "load",
    "node_kubeconfig",
]
