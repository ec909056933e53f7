"""Observation of the runtime, and the wake-ups of pod workers (reference §3)."""
