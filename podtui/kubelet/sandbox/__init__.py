"""Pod sandboxes: network, hostname and DNS resolver (kubelet.md §11)."""
