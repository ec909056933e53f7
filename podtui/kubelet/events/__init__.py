"""Events, after correlation, and timelines of pod starts (reference §15)."""
