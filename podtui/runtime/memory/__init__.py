"""An engine that is simulated in this process: nothing runs, everything looks as if it did.

For a look without an engine, for demonstrations, and for tests with thousands of pods. It keeps the
same contract as the Docker driver (``tests/contract``) and decides nothing either. Its state lives
and dies with the process: to "restart" an agent on it, hand the same `MemoryEngine` to a new
`MemoryRuntime`.
"""

from podtui.runtime.memory.behaviour import Behaviour, Say
from podtui.runtime.memory.engine import MemoryEngine
from podtui.runtime.memory.program import behaviour_of
from podtui.runtime.memory.runtime import MemoryRuntime

__all__ = ["Behaviour", "MemoryEngine", "MemoryRuntime", "Say", "behaviour_of"]
