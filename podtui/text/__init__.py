"""Texts: for terminals, in JSON, as Go prints them, with expanded names, with suggestions."""
