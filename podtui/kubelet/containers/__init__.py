"""Containers: configuration, start, restart and stop (kubelet.md §6, 9, 10, 12)."""
