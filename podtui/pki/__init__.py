"""Certificates, keys and tokens of one root directory, and the kubeconfig that uses them."""
