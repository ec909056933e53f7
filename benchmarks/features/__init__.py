"""What runners of Pod manifests do with each feature of a pod: tried, not looked up.

``python -m benchmarks.features`` plays one small manifest per feature with podtui and with
``podman kube play`` and looks whether the feature had its effect, mostly from inside the container.
The kubelet's column is what the reference and the recordings of a real kubelet say.
"""
