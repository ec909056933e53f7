"""The first screen, its layout and its saved state."""
