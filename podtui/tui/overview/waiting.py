"""Files whose pods cannot begin, since no pod is started while the node is not ready."""

from __future__ import annotations

from podtui.api.local import ManifestState
from podtui.api.readiness import unready, unready_words
from podtui.tui.model import Changes, Model
from podtui.tui.widgets.sanitize import clean


class Waiting:
    """``names`` are those of the files, ``reason`` is what all of them wait for. While the node is
    ready nobody waits: a pod is there in a moment."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.names: frozenset[str] = frozenset()
        self.reason = ""

    def look(self, changes: Changes) -> frozenset[str]:
        """Who begins to wait, ceases to, or waits for something else now."""
        if not (changes.node or changes.pods or changes.manifests):
            return frozenset()
        condition = unready(self._model.node)
        reason = clean(unready_words(condition)) if condition is not None else ""
        names = self._without_pods() if reason else frozenset[str]()
        turned = names ^ self.names if reason == self.reason else names | self.names
        self.names, self.reason = names, reason
        return turned

    def reason_of(self, name: str) -> str:
        """What a file waits for; empty where it does not."""
        return self.reason if name in self.names else ""

    def _without_pods(self) -> frozenset[str]:
        pods = {(p.metadata.namespace, p.metadata.name) for p in self._model.pods.values()}
        return frozenset(
            name
            for name, manifest in self._model.manifests.items()
            if manifest.status.state is ManifestState.ACCEPTED
            and (manifest.status.podNamespace, manifest.status.podName) not in pods
        )
