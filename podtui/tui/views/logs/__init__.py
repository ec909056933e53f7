"""The lines of a log: stored, filtered, merged and exported."""
