"""What the kubelet and the controllers share about recorded events."""
