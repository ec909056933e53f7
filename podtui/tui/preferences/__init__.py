"""The user's settings of the screen: themes, keys, alerts, custom commands."""
