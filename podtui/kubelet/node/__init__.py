"""The node: its record, its engine, its pressures and its end (reference §14)."""
