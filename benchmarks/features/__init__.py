"""Test the features of programs that run Pod manifests.

``python -m benchmarks.features`` runs one small manifest per feature with podtui and with ``podman
kube play``, and checks its effect, mostly from inside the container. The kubelet's column comes
from its documentation and from recordings of a real kubelet.
"""
