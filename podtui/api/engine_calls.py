"""The agent's journal of its calls to the engine, one record per call.

Types of ``podtui.dev/v1alpha1``, like those of `podtui.api.local`.
"""

from __future__ import annotations

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct, Time


class EngineCall(Struct, frozen=True, kw_only=True):
    """One call to the engine. ``line`` is an equivalent docker command line, ready to be copied;
    the values of environment variables are left out. ``count`` is the number of identical calls in
    a row; ``time`` is that of the last one. ``seconds`` is how long that call took, and ``error``
    why it failed."""

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
    """``items`` are sorted from oldest to newest."""

    metadata: ObjectMeta
    items: tuple[EngineCall, ...]
    apiVersion: str = GROUP_VERSION
    kind: str = "EngineCallList"
