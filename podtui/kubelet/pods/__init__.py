"""Desired pods, and the pod workers that bring them about (kubelet.md §1.6, 4, 6)."""
