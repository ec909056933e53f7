"""Wire formats of Kubernetes streams: SPDY frames, WebSocket channels, variable-length numbers."""
