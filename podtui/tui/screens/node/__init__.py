"""The screen of one node and its tabs."""
