"""Pod admission: decide whether this node accepts a pod (kubelet.md §5)."""
