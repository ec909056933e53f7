"""The cases in which podtui departs from the kubelet, by the numbers of ``docs/departures.md``.

A difference is a departure only if it is listed here. Under ``kubeletStrict`` there are none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from conformance.compare import Difference


@dataclass(frozen=True, slots=True)
class Departure:
    """In ``case``, the lines ``ASPECT: LINE`` that match ``pattern`` differ because of departure
    ``number``; with ``lacking``, only the lines that podtui lacks."""

    number: int
    case: str
    pattern: str
    lacking: bool = False

    def owns(self, case: str, difference: Difference) -> bool:
        return (
            self.case == case
            and not (self.lacking and difference.ours is not None)
            and re.search(self.pattern, f"{difference.aspect}: {difference.line}") is not None
        )


DEPARTURES: Final = (
    Departure(4, "unknown-field", r"", lacking=True),
    Departure(5, "hostnetwork", r"^phase: podIPs?\b"),
    Departure(7, "configmap-env", r"^pods: "),
    Departure(7, "multi-doc", r"^pods: multi-doc-two-"),
    Departure(11, "always-exit0", r"^containers: containerStatuses\[main\]\.state\."),
    Departure(11, "init-fail", r"^containers: initContainerStatuses\[init-a\]\.state\."),
    Departure(11, "oom", r"^containers: containerStatuses\[main\]\.state\."),
    Departure(47, "subpath-missing-vol", r"^pods: refused: "),
    Departure(11, "poststart-fail", r"^containers: containerStatuses\[main\]\.state\."),
    Departure(73, "downward", r"^logs: main/0: KUBERNETES_"),
)


def departure(case: str, difference: Difference, *, strict: bool) -> int | None:
    """Return the number of the departure that explains a difference; None if there is none."""
    if strict:
        return None
    return next((one.number for one in DEPARTURES if one.owns(case, difference)), None)
