"""The sandbox of a pod: its network, names and resolver (reference §11)."""
