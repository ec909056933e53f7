"""The types that all packages share. Holds no state and does no I/O."""
