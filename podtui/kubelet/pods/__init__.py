"""Which pods are wanted, and the workers that bring them about (reference §1.6, 4, 6)."""
