"""What one does to pods from the screen: edit, plan, delete, undo, restart, look inside."""
