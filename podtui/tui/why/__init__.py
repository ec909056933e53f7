"""The explanation of a pod's state: draw the diagnosis and apply its fix."""
