"""The Kubernetes API over the store, and the kubelet's own endpoints. Holds no state."""
