"""Images: pull, list and garbage-collect (reference §6.7, 14.4)."""
