"""Whether this node takes a pod (reference §5)."""
