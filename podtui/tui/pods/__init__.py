"""Pods: their rows, and the screen of one pod with its tabs."""
