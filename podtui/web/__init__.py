"""The screen in a browser: a terminal in a page, and a podtui of its own behind each."""
