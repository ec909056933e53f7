"""User preferences: themes, keys, notifications."""
