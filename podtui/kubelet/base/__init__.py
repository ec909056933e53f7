"""Shared by all parts of the kubelet: plain types, settings, texts, time and retries."""
