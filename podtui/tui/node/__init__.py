"""The node: its resources and their allocation, its history, its images, what would fit."""
