"""Pod admission: decide whether this node accepts a pod (reference §5)."""
