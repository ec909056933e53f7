"""The kubelet server of a node of a cluster, from the settings of the agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from aiohttp import web

from podtui.agent.api_reviews import ApiReviewer
from podtui.client.api_client import ApiClient
from podtui.clock import Clock
from podtui.server.kubelet_api.kubelet import KubeletFigures
from podtui.server.kubelet_server.access import AccessRules, KubeletAccess
from podtui.server.kubelet_server.app import build_kubelet_app
from podtui.server.kubelet_server.server import KubeletServer
from podtui.server.protocol import KubeletEndpoints
from podtui.server.transport.certificate_files import CertificateFiles
from podtui.settings import Settings


class NodeKubelet(KubeletEndpoints, KubeletFigures, Protocol):
    """The part of the kubelet that the server uses."""


def kubelet_server(
    settings: Settings,
    kubelet: NodeKubelet,
    client: ApiClient,
    own_certificate: Callable[[], Path],
    *,
    config: bytes,
    clock: Clock,
) -> KubeletServer:
    """Return the server. ``client`` is that of the cluster's API server. ``own_certificate``
    returns the file with certificate and key, if ``tlsCertFile`` is not set; ``config`` is the body
    of ``/configz``."""
    rules = AccessRules(
        anonymous=settings.anonymousAuth,
        webhook=settings.authenticationTokenWebhook,
        token_seconds=settings.authenticationTokenWebhookCacheTTL,
        always_allow=settings.authorizationMode == "AlwaysAllow",
        allowed_seconds=settings.authorizationWebhookCacheAuthorizedTTL,
        refused_seconds=settings.authorizationWebhookCacheUnauthorizedTTL,
    )
    access = KubeletAccess(ApiReviewer(client, clock), settings.nodeName, clock, rules)

    def build() -> web.Application:
        return build_kubelet_app(kubelet, kubelet, access, config=config, clock=clock)

    def paths() -> tuple[Path, Path]:
        certificate = settings.tlsCertFile or own_certificate()
        return certificate, settings.tlsPrivateKeyFile or certificate

    return KubeletServer(
        build,
        CertificateFiles(paths, settings.clientCAFile),
        settings.kubeletAddress,
        settings.kubeletPort,
        clock=clock,
    )
