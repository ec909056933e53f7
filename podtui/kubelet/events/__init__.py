"""Correlate and record events (kubelet.md §15)."""
