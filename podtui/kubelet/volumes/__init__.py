"""Pod volumes, and the ConfigMaps and Secrets that fill them (reference §10.2)."""
