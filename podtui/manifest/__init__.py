"""Reads the manifest folder: parse with positions, default, validate, identify.

Owns the manifests and their diagnostics; does not know the engine.
"""
