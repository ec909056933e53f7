"""Waiting: the texts of the panes until the server answers, and the accepted files without pods
while the node is not ready.
"""

from __future__ import annotations

from podtui.api.health import unready, unready_words
from podtui.api.local import ManifestState
from podtui.tui.model.model import Changes, LinkState, Model
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean


class Waiting:
    """The files that wait: their ``names``, and the common ``reason``. There are none while the
    node is ready, since the pods then appear in a moment.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.names: frozenset[str] = frozenset()
        self.reason = ""

    def update(self, changes: Changes) -> frozenset[str]:
        """Update from the changes. Return the files that start or stop waiting, or with a new
        reason.
        """
        if not (changes.node or changes.pods or changes.manifests):
            return frozenset()
        condition = unready(self._model.node)
        reason = clean(unready_words(condition)) if condition is not None else ""
        names = self._without_pods() if reason else frozenset[str]()
        turned = names ^ self.names if reason == self.reason else names | self.names
        self.names, self.reason = names, reason
        return turned

    def reason_of(self, name: str) -> str:
        """Return the reason why a file waits; empty if it does not wait."""
        return self.reason if name in self.names else ""

    def _without_pods(self) -> frozenset[str]:
        pods = {(p.metadata.namespace, p.metadata.name) for p in self._model.pods.values()}
        return frozenset(
            name
            for name, manifest in self._model.manifests.items()
            if manifest.status.state is ManifestState.ACCEPTED
            and (manifest.status.podNamespace, manifest.status.podName) not in pods
        )


def refused_text(model: Model, kind: type) -> tuple[Line, ...]:
    """Return the message for a kind that the user is not allowed to list; empty if allowed."""
    reason = model.refusals.get(kind)
    if reason is None:
        return ()
    return (
        (Span("✖ you are not allowed to list these", "error"),),
        (Span(clean(reason), "soft"),),
    )


def waiting_text(model: Model, start_error: str) -> tuple[Line, ...]:
    """Return the message of all panes while no server is connected; empty once it is."""
    if model.link is LinkState.CONNECTED:
        return ()
    if model.server.is_cluster:
        return _cluster_text(model)
    if start_error:
        last = [line for line in start_error.splitlines() if line.strip()][-6:]
        return (
            (Span("✖ the agent did not start", "error"),),
            (),
            *((Span(clean(line), "soft"),) for line in last),
            (),
            (Span("run 'podtui doctor' to find the cause", "muted"),),
        )
    if model.link is LinkState.STARTING:
        return ((Span("◔ waiting for the agent…", "init"),),)
    return (
        (Span("✖ the agent does not respond", "error"),),
        (Span(clean(model.lost_reason), "soft"),),
        (Span("retrying; this is the last known state", "muted"),),
    )


def _cluster_text(model: Model) -> tuple[Line, ...]:
    """Return the text of a pane before the cluster answers, or after the connection is lost."""
    host = clean(model.server.host)
    if not model.lost_reason:
        return ((Span(f"◔ connecting to {host}…", "init"),),)
    return (
        (Span("✖ the cluster does not respond as expected", "error"),),
        (Span(clean(model.lost_reason), "soft"),),
        (Span("retrying; this is the last known state", "muted"),),
    )
