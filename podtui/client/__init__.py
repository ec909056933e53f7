"""A client for the Kubernetes API: typed lists, watches and streams. Independent of the kubelet.

The screen imports `protocol` alone; `unix` and `cluster` load aiohttp. For a single request, use
`podtui.client.blocking`.
"""
