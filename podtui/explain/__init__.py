"""What each field of a Pod means, what it may be, and what podtui does with it."""
