"""Edits of a manifest's text: positions of fields, changes of single fields, and their effect."""
