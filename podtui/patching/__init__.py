"""Patches of API objects, as pure functions on documents (plain dicts and lists, decoded JSON)."""
