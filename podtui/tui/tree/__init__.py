"""The pods as a tree, down to ports and mounts."""
