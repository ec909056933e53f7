"""Explains each field of a Pod: its meaning, its valid values, and podtui's support for it."""
