"""All rules in the order in which they are tried: root causes come first."""

from __future__ import annotations

from podtui.why.admission import ADMISSION
from podtui.why.cases import Case
from podtui.why.container_config import SETTING_UP
from podtui.why.endings import ENDINGS
from podtui.why.folder import FOLDER
from podtui.why.images import IMAGES
from podtui.why.pod_rules import ENDS, ENGINE, REST
from podtui.why.probes import HELD, KILLS, UNDER_WAY
from podtui.why.sandbox import SANDBOX
from podtui.why.scheduling import SCHEDULING
from podtui.why.starting import CREATING, STARTING
from podtui.why.types import Facts, Rule

BEFORE: tuple[Rule[Facts], ...] = (*SCHEDULING, ENGINE, FOLDER, *ADMISSION, *ENDS, *SANDBOX)
"""Rules for the whole pod, tried before those of its containers."""
EACH: tuple[Rule[Case], ...] = (*IMAGES, *SETTING_UP, *STARTING, *KILLS, *ENDINGS)
"""Rules for a container that is not running, or that terminated recently."""
RUNNING: tuple[Rule[Case], ...] = (*HELD, *UNDER_WAY, CREATING)
"""Rules for a container that is running or starting."""
AFTER: tuple[Rule[Facts], ...] = REST
"""Rules for the whole pod, tried if no rule of a container matched."""


def all_ids() -> tuple[str, ...]:
    """Return the ids of all rules."""
    return tuple(rule.id for rules in (BEFORE, EACH, RUNNING, AFTER) for rule in rules)
