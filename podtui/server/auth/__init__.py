"""Users, their access, and the reviews that answer questions about it."""
