"""Fields of manifests, explained."""
