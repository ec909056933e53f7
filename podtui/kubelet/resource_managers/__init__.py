"""The CPU, memory and topology managers: exclusive CPUs and NUMA memory (kubelet.md §13.7)."""
