"""The first screen and its panes."""
