"""The hostname of a pod (reference §11.2)."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Pod
from podtui.kubelet.base.config_error import ConfigError

HOSTNAME_LIMIT: Final = 63
FQDN_LIMIT: Final = 64


def _cut(name: str) -> str:
    return name if len(name) <= HOSTNAME_LIMIT else name[:HOSTNAME_LIMIT].rstrip("-.")


def host_and_domain(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """Return the pod's hostname and its domain. The domain is empty if the pod has none."""
    spec = pod.spec
    if spec.hostnameOverride:
        return _cut(spec.hostnameOverride), ""
    host = _cut(spec.hostname or pod.metadata.name)
    if not spec.subdomain:
        return host, ""
    return host, f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"


def sandbox_hostname(pod: Pod, cluster_domain: str) -> str:
    """Return the hostname to set in the kernel; empty for the host network, which has the node's
    name.

    Raises `ConfigError` for a fully qualified name that exceeds the kernel's limit.
    """
    if pod.spec.hostNetwork:
        return ""
    host, domain = host_and_domain(pod, cluster_domain)
    if not (domain and pod.spec.setHostnameAsFQDN):
        return host
    full = f"{host}.{domain}"
    if len(full) > FQDN_LIMIT:
        raise ConfigError(
            "failed to construct FQDN from pod hostname and cluster domain,"
            f" FQDN {full} is too long ({FQDN_LIMIT} characters is the max,"
            f" {len(full)} characters requested)"
        )
    return full
