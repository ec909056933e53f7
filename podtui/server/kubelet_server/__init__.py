"""The server of a kubelet in a cluster: its own paths over TLS, for the cluster's API server."""
