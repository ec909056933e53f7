"""Pods as a tree, down to ports and mounts."""
