"""The log view and its pane."""
