"""What users set: themes, keys, calls for attention."""
