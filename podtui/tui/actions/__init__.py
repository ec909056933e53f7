"""Actions on pods from the screen: edit, plan, delete, undo, restart, shell, port-forward."""
