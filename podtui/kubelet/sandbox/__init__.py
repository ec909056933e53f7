"""Pod sandboxes: network, hostname and DNS resolver (reference §11)."""
