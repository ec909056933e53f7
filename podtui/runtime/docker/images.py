"""Image names, image records and pull progress. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from podtui.runtime.docker.errors import understood
from podtui.runtime.docker.identity import instant
from podtui.runtime.protocol import ImageRecord, PullProgress

_ID: Final = re.compile(r"(sha256:)?[0-9a-f]{64}")
_GATEWAY_ERRORS: Final = (502, 503, 504)
_DOCKER_IO: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")


def is_id(image: str) -> bool:
    return _ID.fullmatch(image) is not None


@dataclass(frozen=True, slots=True)
class ImageName:
    """A fully qualified reference: ``busybox`` is docker.io, library/busybox, latest."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, image: str) -> ImageName:
        """Parse a reference. As in the engines, a digest takes precedence over a tag."""
        rest, _, digest = image.partition("@")
        first, slash, path = rest.partition("/")
        if slash and (first == "localhost" or "." in first or ":" in first):
            registry, rest = first, path
        else:
            registry = "docker.io"
        if registry in _DOCKER_IO:
            registry = "docker.io"
            if "/" not in rest:
                rest = f"library/{rest}"
        head, colon, tag = rest.rpartition(":")
        repository, tag = (head, tag) if colon and "/" not in tag else (rest, "")
        return cls(registry, repository, "" if digest else tag or "latest", digest)

    @property
    def name(self) -> str:
        """The name without tag and digest, in the engine's short form for docker.io."""
        if self.registry != "docker.io":
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


@understood("an image")
def image_record(found: Mapping[str, Any]) -> ImageRecord:
    """Convert an inspection or a list entry. A list entry has no user."""
    config: Mapping[str, Any] = found.get("Config") or found.get("ContainerConfig") or {}
    created: object = found.get("Created")
    return ImageRecord(
        id=_prefixed(str(found["Id"])),
        tags=tuple(t for t in found.get("RepoTags") or () if t != "<none>:<none>"),
        digests=tuple(d for d in found.get("RepoDigests") or () if d != "<none>@<none>"),
        size=int(found.get("Size") or 0),
        user=str(config.get("User") or ""),
        created_at=_moment(created),
    )


def _moment(created: object) -> datetime | None:
    """Parse a creation time. Lists have seconds since 1970, inspections have a time string."""
    if isinstance(created, int):
        return datetime.fromtimestamp(created, UTC) if created > 0 else None
    return instant(created)


def _prefixed(identity: str) -> str:
    return identity if ":" in identity else f"sha256:{identity}"


@understood("the progress of a pull")
def pull_problem(message: Mapping[str, Any]) -> str:
    """Return the error text in a pull stream. An error of a gateway in front of the registry gets
    the prefix ``RegistryUnavailable``, which the kubelet knows (reference §6.7)."""
    text = str(message.get("error", ""))
    detail: Mapping[str, Any] = message.get("errorDetail") or {}
    return f"RegistryUnavailable: {text}" if detail.get("code") in _GATEWAY_ERRORS else text


@dataclass(slots=True)
class Progress:
    """Sums the progress of all layers."""

    _current: dict[str, int] = field(default_factory=dict[str, int])
    _total: dict[str, int] = field(default_factory=dict[str, int])

    @understood("the progress of a pull")
    def add(self, message: Mapping[str, Any]) -> PullProgress:
        layer = str(message.get("id") or "")
        status = str(message.get("status") or "")
        detail: Mapping[str, Any] = message.get("progressDetail") or {}
        if status == "Downloading" and layer:
            self._current[layer] = int(detail.get("current") or 0)
            self._total[layer] = max(int(detail.get("total") or 0), self._total.get(layer, 0))
        elif status in ("Download complete", "Pull complete") and layer in self._total:
            self._current[layer] = self._total[layer]
        return PullProgress(
            status=f"{layer}: {status}" if layer else status,
            current=sum(self._current.values()),
            total=sum(self._total.values()),
        )
