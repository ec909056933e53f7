"""What the folder says: read, decode with line and column, default, validate, identify.

Owns the truth of the manifests and their diagnostics; knows no engine.
"""
