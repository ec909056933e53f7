"""The screen with the tree of pods."""
