"""Observation of the runtime, and the wake-ups of pod workers (kubelet.md §3)."""
