"""Resource allocations of pods, and in-place resizes (reference §13.6)."""
