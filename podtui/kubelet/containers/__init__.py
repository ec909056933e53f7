"""Containers: configuration, start, restart, stop and logs (kubelet.md §6, 9, 10, 12)."""
