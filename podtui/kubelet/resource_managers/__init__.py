"""The device, CPU, memory and topology managers (kubelet.md §13.7)."""
