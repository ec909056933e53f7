"""What a server can be asked for, as plain data: an agent has more than a cluster."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Capabilities(Struct, frozen=True, kw_only=True):
    """True for what is there. All that Kubernetes' own API has is not listed."""

    manifests: bool = True
    """Files of a folder that pods come from: plans, templates, a trash, fixes at a key."""
    engine: bool = True
    """A container engine that is told of: its calls, its images."""
    what_if: bool = True
    """Whether something would fit, and pods that were refused."""
    timelines: bool = True
    """How pods started, step by step."""
    insights: bool = True
    """How probes stand, and what was used over time."""
    restarts: bool = True
    """Pods and containers that are run anew without being replaced."""
    deletes: bool = False
    """Pods that end when their record is deleted."""
    managed_fields: bool = True
    several_nodes: bool = False
    contexts: bool = False
    """Other servers to turn to."""
    usage_seconds: float = 3.0
    """How often usage is worth asking for."""


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
    """Who is looked at: the agent of this machine, or a cluster by the names that a kubeconfig
    gives it. ``contexts`` are those that one may turn to."""

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
