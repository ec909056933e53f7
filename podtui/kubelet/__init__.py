"""Decisions, and the loops that carry them out. Paints nothing, parses no YAML, never calls an engine but through `podtui.runtime.protocol`."""
