"""The kubelet's endpoints, the streams of containers, and podtui's own requests about a node."""
