"""The node: its books, its past, its images, and what would fit."""
