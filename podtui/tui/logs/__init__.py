"""Logs: millions of lines on disk, filtered, searched, merged and drawn."""
