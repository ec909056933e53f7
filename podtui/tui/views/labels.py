"""Short texts that name pods, manifests and diagnostics."""

from __future__ import annotations

from pathlib import PurePosixPath

from podtui.api.local import Diagnostic, Manifest, ManifestState, Severity
from podtui.api.v1 import Pod
from podtui.tui.widgets.sanitize import clean


def pod_label(pod: Pod) -> str:
    """Return the name, with the namespace unless that is "default"."""
    return name_label(pod.metadata.namespace, pod.metadata.name)


def name_label(namespace: str, name: str) -> str:
    """Return the name of an object, with its namespace unless that is "default"."""
    return clean(name) if namespace in ("", "default") else f"{clean(namespace)}/{clean(name)}"


def place_of(manifest: Manifest) -> str:
    """Return ``FILE:LINE:COLUMN`` of the first error or other diagnostic, else the file's name."""
    diagnostics = sorted(
        manifest.status.diagnostics, key=lambda d: d.severity is not Severity.ERROR
    )
    name = clean(PurePosixPath(manifest.spec.path).name or manifest.metadata.name)
    for diagnostic in diagnostics:
        if diagnostic.line is not None:
            column = f":{diagnostic.column}" if diagnostic.column is not None else ""
            return f"{name}:{diagnostic.line}{column}"
    return name


def diagnostic_text(diagnostic: Diagnostic) -> str:
    """Return the cause, the fix and the field."""
    fix = f" → {diagnostic.fix}" if diagnostic.fix else ""
    field = diagnostic.field if diagnostic.field not in diagnostic.message else ""
    return clean(f"{diagnostic.message}{fix}" + (f" · {field}" if field else ""))


def manifest_message(manifest: Manifest) -> str:
    """Return what becomes of the documents of an accepted file; otherwise its first diagnostic,
    errors before warnings, and the number of the others."""
    diagnostics = sorted(
        manifest.status.diagnostics, key=lambda d: d.severity is not Severity.ERROR
    )
    accepted = manifest.status.state is ManifestState.ACCEPTED
    if not diagnostics or (accepted and manifest.status.message):
        return clean(manifest.status.message)
    more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    return diagnostic_text(diagnostics[0]) + more
