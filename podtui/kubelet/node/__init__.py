"""The node: its record, engine connection, pressure conditions and shutdown (reference §14)."""
