"""The declarations of the kinds, by API group."""
