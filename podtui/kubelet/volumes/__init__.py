"""Pod volumes, and the ConfigMaps and Secrets that fill them (kubelet.md §10.2)."""
