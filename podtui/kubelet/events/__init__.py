"""Events, after correlation, and timelines of pod starts (kubelet.md §15)."""
