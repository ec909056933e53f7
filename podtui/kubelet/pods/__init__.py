"""Desired pods, the sync loop, the pod workers and their passes (kubelet.md §1.6, 3, 4, 6)."""
