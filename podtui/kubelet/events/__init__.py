"""Correlate and record events (reference §15)."""
