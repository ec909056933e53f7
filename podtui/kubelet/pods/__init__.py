"""Desired pods, and the pod workers that bring them about (reference §1.6, 4, 6)."""
