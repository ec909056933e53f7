"""The commands, and the session that they run in."""
