"""The node: its record, machine, engine connection and pressure conditions (kubelet.md §14)."""
