"""Widgets and text formatting that know Textual, but no record."""
