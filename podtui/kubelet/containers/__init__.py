"""Containers: configuration, start, restart and stop (reference §6, 9, 10, 12)."""
