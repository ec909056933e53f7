"""What is said of a pod, and the mirror records that say it (reference §2, 7)."""
