"""All causes, in the order in which they are looked for: what is at the root comes first."""

from __future__ import annotations

from podtui.why.admission import ADMISSION
from podtui.why.endings import ENDINGS
from podtui.why.folder import FOLDER
from podtui.why.images import IMAGES
from podtui.why.look import Case
from podtui.why.probes import HELD, KILLS, UNDER_WAY
from podtui.why.sandbox import SANDBOX
from podtui.why.scheduling import SCHEDULING
from podtui.why.setting_up import SETTING_UP
from podtui.why.starting import CREATING, STARTING
from podtui.why.types import Facts, Rule
from podtui.why.whole import ENDS, ENGINE, REST

BEFORE: tuple[Rule[Facts], ...] = (*SCHEDULING, ENGINE, FOLDER, *ADMISSION, *ENDS, *SANDBOX)
"""Of the whole pod, before its containers are looked at."""
EACH: tuple[Rule[Case], ...] = (*IMAGES, *SETTING_UP, *STARTING, *KILLS, *ENDINGS)
"""Of one container that does not run, or ended not long ago."""
RUNNING: tuple[Rule[Case], ...] = (*HELD, *UNDER_WAY, CREATING)
"""Of one that runs or is on its way."""
AFTER: tuple[Rule[Facts], ...] = REST
"""Of the whole pod, when no container has anything to say."""


def all_ids() -> tuple[str, ...]:
    """The ids of all rules, each once."""
    return tuple(rule.id for rules in (BEFORE, EACH, RUNNING, AFTER) for rule in rules)
