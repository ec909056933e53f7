"""Containers: configuration, start, restart, stop and logs (reference §6, 9, 10, 12)."""
