"""Screens, widgets, keys and themes: a client of the API that holds no truth of its own."""
