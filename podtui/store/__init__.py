"""The record store: objects with resourceVersions, bounded watches and expiring events, on SQLite.

The store knows no HTTP. All records are in memory and served from there; a background thread writes
them to the file, so that they survive the process.
"""

from podtui.store.records import Store, open_store

__all__ = ["Store", "open_store"]
