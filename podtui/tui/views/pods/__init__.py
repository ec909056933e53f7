"""Views of pods: table rows and the content of the pod screen's tabs."""
