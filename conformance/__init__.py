"""podtui held against the record of a real kubelet: the same manifests on the real engine, then
phase, conditions, container states and events side by side.

``python -m conformance`` runs it; the records are in ``tests/golden``.
"""
