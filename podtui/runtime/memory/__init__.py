"""A simulated engine in this process, for demonstrations and for tests with thousands of pods.

A simulated container prints one line, its image and command, and runs until it is stopped; tests
declare other behaviours. It keeps the same contract as the Docker driver (``tests/contract``). Its
state ends with the process: to "restart" an agent on it, pass the same `MemoryEngine` to a new
`MemoryRuntime`.
"""

from podtui.runtime.memory.engine import MemoryEngine
from podtui.runtime.memory.process import Behaviour, OutputLine
from podtui.runtime.memory.runtime import MemoryRuntime, simulated_runtime

__all__ = ["Behaviour", "MemoryEngine", "MemoryRuntime", "OutputLine", "simulated_runtime"]
