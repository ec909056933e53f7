"""What was seen of the runtime, and who is woken by it (reference §3)."""
