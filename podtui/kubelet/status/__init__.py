"""Pod statuses, and the mirror records that publish them (reference §2, 7)."""
