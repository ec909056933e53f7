"""Resource allocations of pods, and in-place resizes (kubelet.md §13.6)."""
