"""Kubeconfig files, merged as kubectl does it: the selected cluster and its credentials."""

from podtui.kubeconfig.loading import choose, load
from podtui.kubeconfig.types import (
    Cluster,
    Context,
    ExecPlugin,
    Impersonation,
    Kubeconfig,
    KubeconfigError,
    Target,
    User,
)

__all__ = [
    "Cluster",
    "Context",
    "ExecPlugin",
    "Impersonation",
    "Kubeconfig",
    "KubeconfigError",
    "Target",
    "User",
    "choose",
    "load",
]
