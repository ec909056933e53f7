"""Shared by all parts of the kubelet: plain types, settings, resources, values, retries."""
