"""The screen in a browser: a terminal in a page, with a separate podtui process for each tab."""
