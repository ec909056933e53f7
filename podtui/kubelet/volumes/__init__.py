"""Volumes of pods, and the documents that fill them (reference §10.2)."""
