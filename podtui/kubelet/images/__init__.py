"""Images: pulled, told of and collected (reference §6.7, 14.4)."""
