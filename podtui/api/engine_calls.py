"""What the agent asked of the engine, one record for each call: the agent's own journal.

Of ``podtui.dev/v1alpha1``, as the types of `podtui.api.local`.
"""

from __future__ import annotations

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct, Time


class EngineCall(Struct, frozen=True, kw_only=True):
    """``line`` is a docker command line that does the same, to be copied; values of variables are
    left out. ``count``: so often it was called in a row, ``time`` of the last one. ``seconds`` is
    how long that took; ``error`` why it failed."""

    serial: int
    time: Time
    line: str
    verb: str
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    count: int = 1
    seconds: float = 0.0
    error: str = ""


class EngineCallList(Struct, frozen=True, kw_only=True):
    """The oldest first."""

    metadata: ObjectMeta
    items: tuple[EngineCall, ...]
    apiVersion: str = GROUP_VERSION
    kind: str = "EngineCallList"
