"""Annotations that podtui puts on the records of pods and nodes, beside Kubernetes' own."""

from __future__ import annotations

from typing import Final

# Of a pod's record.
PULL_PROGRESS: Final = "podtui.dev/pull-progress"
"""``CONTAINER: STATUS CURRENT/TOTAL`` in bytes, while an image is being pulled."""
WOULD_FIT: Final = "podtui.dev/would-fit"
"""``true`` on a rejected pod that would be admitted by now (departure 6)."""
LACKS: Final = "podtui.dev/lacks"
"""By how much a rejected pod did not fit, for people."""

# Of the node's record.
SIMULATED: Final = "podtui.dev/simulated"
"""``true`` where no container really runs."""
ENGINE_LACKS: Final = "podtui.dev/engine-lacks"
"""What the engine cannot do, for people."""
WOULD_EVICT: Final = "podtui.dev/would-evict"
"""``NAMESPACE/NAME`` of the pod that a node under pressure would have to end first, if pods of a
folder were ever evicted."""
