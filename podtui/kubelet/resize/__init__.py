"""What pods were given, and changes of it while they run (reference §13.6)."""
