"""Screens, widgets, keys and themes: a client of the agent's API that keeps no state of its own."""
