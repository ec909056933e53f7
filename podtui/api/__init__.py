"""The types every room speaks. Owns no state and does no I/O."""
