"""Pod admission: predicates, preemption, what-if, and plans of changes (kubelet.md §5)."""
