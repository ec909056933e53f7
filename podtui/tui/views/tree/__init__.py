"""The tree of pods, containers and volumes."""
