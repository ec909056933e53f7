"""The node: its record, engine connection, pressure conditions and shutdown (kubelet.md §14)."""
