"""The Docker driver: the `Runtime` protocol on a Docker-compatible engine.

Everything goes through the engine's API; local files are only read as a fast path. The driver makes
no decisions about pods. No other package imports ``docker``.
"""

from __future__ import annotations

from podtui.runtime.docker.locate import Endpoint, EngineSearch, TriedEndpoint, find_engine
from podtui.runtime.docker.payload import LogLimits
from podtui.runtime.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime", "Endpoint", "EngineSearch", "LogLimits", "TriedEndpoint", "find_engine"]
