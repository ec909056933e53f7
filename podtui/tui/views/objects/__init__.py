"""Rows and texts of objects of any kind."""
