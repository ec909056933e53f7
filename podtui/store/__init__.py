"""The records: objects with resourceVersions, bounded watches, events that age; on SQLite.

Knows no HTTP.
"""
