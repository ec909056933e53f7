"""Annotations that podtui adds to the records of pods and nodes."""

from __future__ import annotations

from typing import Final

# On the records of pods.
LACKS: Final = "podtui.dev/lacks"
"""The missing resource amounts of a rejected pod, as a text for users."""

# On the record of the node.
SIMULATED: Final = "podtui.dev/simulated"
"""``true`` if the runtime only simulates containers."""
ENGINE_LACKS: Final = "podtui.dev/engine-lacks"
"""The features that the engine lacks, as a text for users."""
