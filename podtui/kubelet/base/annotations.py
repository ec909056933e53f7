"""Annotations that podtui puts on the records of pods and nodes, beside Kubernetes' own."""

from __future__ import annotations

from typing import Final

# Of a pod's record.
LACKS: Final = "podtui.dev/lacks"
"""By how much a rejected pod did not fit, for people."""

# Of the node's record.
SIMULATED: Final = "podtui.dev/simulated"
"""``true`` where no container really runs."""
ENGINE_LACKS: Final = "podtui.dev/engine-lacks"
"""What the engine cannot do, for people."""
