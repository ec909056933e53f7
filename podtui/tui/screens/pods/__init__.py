"""The screen of one pod and its tabs."""
