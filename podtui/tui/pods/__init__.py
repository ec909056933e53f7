"""The rows of the pods table, and the screen of one pod with its tabs."""
