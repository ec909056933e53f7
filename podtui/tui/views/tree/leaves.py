"""The ports, mounts, environment sources and probes of a container as pairs of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from podtui.api.v1 import Container, EphemeralContainer, Volume
from podtui.tui.views.pods.describe_container import probe_text


def leaves(
    container: Container | EphemeralContainer, volumes: Mapping[str, Volume]
) -> Iterator[tuple[str, str]]:
    """Yield (label, detail) for ports, mounts, environment sources and probes.

    The values of variables are never included.
    """
    for port in container.ports:
        name = f" {port.name}" if port.name else ""
        outside = f"{port.hostIP}:" if port.hostIP else ""
        host = f"← node {outside}{port.hostPort}" if port.hostPort else ""
        yield f"port {port.containerPort}/{port.protocol or 'TCP'}{name}", host
    for mount in container.volumeMounts:
        sub = mount.subPath or mount.subPathExpr
        only = " (read-only)" if mount.readOnly else ""
        volume = volumes.get(mount.name)
        source = volume_text(volume) if volume is not None else "no such volume"
        yield (
            f"mount {mount.mountPath}",
            f"← {mount.name}{f'/{sub}' if sub else ''}: {source}{only}",
        )
    yield from _variables(container)
    for name, probe in (
        ("startup", container.startupProbe),
        ("readiness", container.readinessProbe),
        ("liveness", container.livenessProbe),
    ):
        if probe is not None:
            yield f"probe {name}", probe_text(probe)


def _variables(container: Container | EphemeralContainer) -> Iterator[tuple[str, str]]:
    """Yield the environment variables grouped by source."""
    for source in container.envFrom:
        ref = source.configMapRef or source.secretRef
        kind = "Secret" if source.secretRef is not None else "ConfigMap"
        yield f"env {kind} {ref.name if ref is not None else ''}", f"→ {source.prefix}*"
    found: dict[str, list[str]] = {}
    for one in container.env:
        origin = one.valueFrom
        if origin is None:
            found.setdefault("values", []).append(one.name)
        elif origin.configMapKeyRef is not None:
            found.setdefault(f"ConfigMap {origin.configMapKeyRef.name}", []).append(
                f"{origin.configMapKeyRef.key} → {one.name}"
            )
        elif origin.secretKeyRef is not None:
            found.setdefault(f"Secret {origin.secretKeyRef.name}", []).append(
                f"{origin.secretKeyRef.key} → {one.name}"
            )
        elif origin.fieldRef is not None:
            found.setdefault("fields", []).append(f"{origin.fieldRef.fieldPath} → {one.name}")
        elif origin.resourceFieldRef is not None:
            text = f"{origin.resourceFieldRef.resource} → {one.name}"
            found.setdefault("resources", []).append(text)
        else:
            found.setdefault("files", []).append(one.name)
    for source, names in found.items():
        yield f"env {source}", ", ".join(names)


def volume_text(volume: Volume) -> str:
    """Return the type and the source of a volume: ``ConfigMap web``, ``hostPath /srv``."""
    if volume.configMap is not None:
        return f"ConfigMap {volume.configMap.name}"
    if volume.secret is not None:
        return f"Secret {volume.secret.secretName}"
    if volume.hostPath is not None:
        return f"hostPath {volume.hostPath.path}"
    if volume.emptyDir is not None:
        size = f" {volume.emptyDir.sizeLimit}" if volume.emptyDir.sizeLimit else ""
        memory = " in memory" if volume.emptyDir.medium == "Memory" else ""
        return f"emptyDir{size}{memory}"
    if volume.image is not None:
        return f"image {volume.image.reference}"
    if volume.persistentVolumeClaim is not None:
        return f"claim {volume.persistentVolumeClaim.claimName}"
    names = (f.name for f in msgspec.structs.fields(Volume) if f.name != "name")
    return next((name for name in names if getattr(volume, name) is not None), "emptyDir")
