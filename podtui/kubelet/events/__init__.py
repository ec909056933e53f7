"""Events: correlated, and put on record (reference §15)."""
