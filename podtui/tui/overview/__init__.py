"""The screen that podtui opens with, and how it is arranged and remembered."""
