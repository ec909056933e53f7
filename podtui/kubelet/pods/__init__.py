"""Desired pods, the sync loop, the pod workers and their passes (reference §1.6, 3, 4, 6)."""
