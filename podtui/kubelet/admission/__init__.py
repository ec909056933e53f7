"""Pod admission: predicates, preemption, what-if, and plans of changes (reference §5)."""
