"""One container: described, started, restarted and stopped (reference §6, 9, 10, 12)."""
