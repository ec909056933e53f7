"""Connections: the unix socket, TCP with TLS, WebSockets, SPDY, endless responses."""
