"""Views of the node: its resources, images and what-if answers."""
