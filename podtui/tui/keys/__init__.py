"""Keys, commands, and the help generated from them."""
