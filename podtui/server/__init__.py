"""The Kubernetes API over the store, and the kubelet's own endpoints. Stateless."""

from podtui.server.app import build_app
from podtui.server.status import StatusError
from podtui.server.transport.unix import serve_unix

__all__ = ["StatusError", "build_app", "serve_unix"]
