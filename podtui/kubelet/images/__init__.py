"""Images: pull, list and garbage-collect (kubelet.md §6.7, 14.4)."""
