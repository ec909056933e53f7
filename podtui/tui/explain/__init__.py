"""Documentation of manifest fields."""
