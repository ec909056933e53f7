"""Compare podtui with recordings of a real kubelet: run the same manifests on the real engine and
compare phase, conditions, container states and events.

``python -m conformance`` runs it; the recordings are in ``tests/golden``.
"""
