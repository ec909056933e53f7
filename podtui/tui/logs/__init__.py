"""Logs: store millions of lines on disk; filter, search, merge and draw them."""
