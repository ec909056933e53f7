"""Speaks the API as typed lists, watches and streams. Knows no kubelet."""
