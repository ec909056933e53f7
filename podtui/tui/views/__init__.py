"""Pure functions from records to rows and lines, without Textual."""
