"""Decisions, and the loops that carry them out.

Paints nothing, parses no YAML, reaches an engine only through ``podtui.runtime.protocol``.
"""
