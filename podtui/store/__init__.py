"""The records: objects with resourceVersions, bounded watches, events that age; on SQLite.

Knows no HTTP. Everything lives in memory and is served from there; the file is how it outlives the
process, written behind by a thread of its own.
"""

from podtui.store.records import Store, open_store

__all__ = ["Store", "open_store"]
