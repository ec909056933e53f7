"""Keys, commands and the help that is made from them."""
