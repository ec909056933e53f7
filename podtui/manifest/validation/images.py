"""Rules for image references and pull policies."""

from __future__ import annotations

from typing import Final

from podtui.manifest.validation.errors import Errors, invalid, not_supported, required

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")


def pull_policy(policy: str, path: str) -> Errors:
    if not policy:
        yield required(path)
    elif policy not in PULL_POLICIES:
        yield not_supported(path, policy, PULL_POLICIES)


def unpadded(image: str, path: str) -> Errors:
    if image != image.strip():
        yield invalid(path, image, "must not have leading or trailing whitespace")
