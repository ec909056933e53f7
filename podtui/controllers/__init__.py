"""The controllers: clients of the API that bring objects to their desired state, as those of
kube-controller-manager do."""
