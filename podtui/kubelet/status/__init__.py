"""Pod statuses, and the mirror records that publish them (kubelet.md §2, 7)."""
