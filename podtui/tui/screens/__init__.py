"""The screens and their panes."""
