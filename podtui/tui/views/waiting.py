"""Accepted files without pods, because no pod is started while the node is not ready."""

from __future__ import annotations

from podtui.api.local import ManifestState
from podtui.api.readiness import unready, unready_words
from podtui.tui.model.model import Changes, Model
from podtui.tui.widgets.sanitize import clean


class Waiting:
    """The waiting files: their ``names``, and the common ``reason``. There are none while the node
    is ready, since the pods then appear in a moment.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.names: frozenset[str] = frozenset()
        self.reason = ""

    def look(self, changes: Changes) -> frozenset[str]:
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
