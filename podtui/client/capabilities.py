"""The features of a server, as plain data: an agent has more than a cluster."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Capabilities(Struct, frozen=True, kw_only=True):
    """Flags of available features. Features of the standard Kubernetes API are not listed."""

    manifests: bool = True
    """Pods come from manifest files: plans, templates, trash and quick fixes."""
    engine: bool = True
    """The container engine is exposed: its calls and its images."""
    what_if: bool = True
    """Admission checks for a manifest, and rejected pods."""
    timelines: bool = True
    """The start of each pod, step by step."""
    insights: bool = True
    """Probe states and usage history."""
    restarts: bool = True
    """Pods and containers can be restarted in place."""
    deletes: bool = False
    """A pod can be deleted through the API."""
    managed_fields: bool = True
    several_nodes: bool = False
    contexts: bool = False
    """The user can switch to other servers."""
    usage_seconds: float = 3.0
    """The poll interval for usage."""


AGENT: Final = Capabilities()
CLUSTER: Final = Capabilities(
    manifests=False,
    engine=False,
    what_if=False,
    timelines=False,
    insights=False,
    restarts=False,
    deletes=True,
    managed_fields=False,
    several_nodes=True,
    contexts=True,
    usage_seconds=15.0,
)


class Server(Struct, frozen=True, kw_only=True):
    """The server: the agent of this machine, or a cluster with its names in the kubeconfig.
    ``contexts`` are the contexts that the user can switch to."""

    capabilities: Capabilities = AGENT
    host: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    contexts: tuple[str, ...] = ()

    @property
    def is_cluster(self) -> bool:
        return bool(self.context)


LOCAL: Final = Server()
