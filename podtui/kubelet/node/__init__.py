"""The node: its record, machine, engine connection and pressure conditions (reference §14)."""
