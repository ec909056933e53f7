"""The first screen, its layout, and the saved state of both."""
