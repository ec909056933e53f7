"""Table rows for the node's pods, images and rejected pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from podtui.api.images import NodeImage
from podtui.api.times import epoch
from podtui.api.v1 import Pod
from podtui.tui.model.model import pod_key
from podtui.tui.model.usage import Usage
from podtui.tui.views.node.gauges import PodRequests, Rejection
from podtui.tui.widgets.cells import Cell, Column, Kind, Row, Value
from podtui.tui.widgets.format import millicores, natural_key, percent, plural, size
from podtui.tui.widgets.sanitize import clean

SHARE_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=12, maximum=64, flexible=True, filling=True),
    Column("cpu-requested", "CPU REQ", 90, align="right", descending=True, kind=Kind.CPU),
    Column("cpu-limit", "CPU LIM", 60, align="right", descending=True, kind=Kind.CPU),
    Column("cpu-used", "CPU USED", 85, align="right", descending=True, kind=Kind.CPU),
    Column("cpu-share", "%CPU", 70, align="right", descending=True, kind=Kind.PERCENT),
    Column("memory-requested", "MEM REQ", 89, align="right", descending=True, kind=Kind.BYTES),
    Column("memory-limit", "MEM LIM", 59, align="right", descending=True, kind=Kind.BYTES),
    Column("memory-used", "MEM USED", 84, align="right", descending=True, kind=Kind.BYTES),
    Column("memory-share", "%MEM", 69, align="right", descending=True, kind=Kind.PERCENT),
    Column("storage", "STORAGE", 50, align="right", descending=True, kind=Kind.BYTES),
)
IMAGE_COLUMNS: Final = (
    Column("image", "IMAGE", 100, minimum=16, maximum=96, flexible=True, filling=True),
    Column("size", "SIZE", 90, align="right", descending=True, kind=Kind.BYTES),
    Column("age", "AGE", 80, align="right", kind=Kind.AGE),
    Column("pods", "PODS", 70, align="right", descending=True, kind=Kind.COUNT),
    Column("users", "USED BY", 60, minimum=9, maximum=48, flexible=True),
    Column("fate", "WHEN UNUSED", 50, maximum=16),
)
REJECTED_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=12, maximum=48, flexible=True),
    Column("now", "NOW", 95, maximum=10),
    Column("reason", "REASON", 80, minimum=10, maximum=32, flexible=True),
    Column("age", "AGE", 60, align="right", kind=Kind.AGE),
    Column("missing", "MISSING", 90, minimum=20, maximum=200, flexible=True, filling=True),
)
_NONE: Final = Cell("-", "muted")


def share_row(pod: Pod, ask: PodRequests, use: Usage | None, allocatable: Mapping[str, int]) -> Row:
    """Return the row of a pod. Percentages are of allocatable, for the larger of request and
    usage."""
    label = ask.label
    cells = [Cell(label, "name")]
    counts: list[int] = []
    for resource, text in (("cpu", millicores), ("memory", size)):
        used = 0 if use is None else use.cpu if resource == "cpu" else use.memory
        asked, limit = ask.requests[resource], ask.limits[resource]
        share = 100 * max(asked, used) // max(1, allocatable.get(resource, 0))
        cells += [_amount(text, count) for count in (asked, limit, used)]
        cells.append(_share(share))
        counts += [asked, limit, used, share]
    storage = ask.requests["ephemeral-storage"]
    return Row(
        key=pod_key(pod),
        cells=(*cells, _amount(size, storage)),
        sort=(natural_key(label), *counts, storage),
        values=(label, *map(float, counts), float(storage)),
        search=label,
        labels=pod.metadata.labels,
    )


def _amount(text: Callable[[int], str], count: int) -> Cell:
    return Cell(text(count)) if count else _NONE


def _share(percents: int) -> Cell:
    if percents < 70:
        return Cell(f"{percents}%") if percents else _NONE
    return Cell(f"▲{percents}%", "warning") if percents < 90 else Cell(f"✖{percents}%", "error")


def image_row(image: NodeImage) -> Row:
    """Return the row of an image."""
    names = [clean(name) for name in image.names] or [clean(image.id)]
    users = [clean(user) for user in image.usedBy]
    created = epoch(image.created)
    fate = ("collected", "warning") if image.collectable else ("kept", "muted")
    others = f" +{len(names) - 1}" if len(names) > 1 else ""
    values: tuple[Value, ...] = (
        names[0], float(image.sizeBytes), created, float(len(users)), " ".join(users), fate[0],
    )  # fmt: skip
    return Row(
        key=image.id,
        cells=(
            Cell(names[0] + others, "name"),
            Cell(size(image.sizeBytes)),
            _NONE if created is None else Cell(since=created),
            Cell(str(len(users))) if users else _NONE,
            Cell(_short(users), "soft") if users else _NONE,
            Cell(*fate),
        ),
        sort=(
            natural_key(names[0]), image.sizeBytes, -(created or 0.0), len(users),
            natural_key(" ".join(users)), fate[0],
        ),
        values=values,
        search=" ".join((*names, *users)),
    )  # fmt: skip


def _short(users: Sequence[str]) -> str:
    """Join names, without the namespace ``default``."""
    return " ".join(user.removeprefix("default/") for user in users)


def rejected_row(pod: Pod, rejection: Rejection) -> Row:
    """Return the row of a rejected pod."""
    started = epoch(pod.status.startTime) or epoch(pod.metadata.creationTimestamp)
    now = Cell("✔ fits", "good") if rejection.fits else Cell("✖ no room", "error")
    return Row(
        key=rejection.key,
        cells=(
            Cell(rejection.name, "name"),
            now,
            Cell(rejection.reason, "error"),
            _NONE if started is None else Cell(since=started),
            Cell(rejection.missing, "soft"),
        ),
        sort=(
            natural_key(rejection.name), rejection.fits, rejection.reason, -(started or 0.0),
            rejection.missing,
        ),
        values=(rejection.name, now.text, rejection.reason, started, rejection.missing),
        search=f"{rejection.name} {rejection.reason} {rejection.missing}",
        fault=not rejection.fits,
    )  # fmt: skip


def image_summary(images: Sequence[NodeImage]) -> str:
    """Summarize the number and size of all images and of the unused ones."""
    total = sum(image.sizeBytes for image in images)
    unused = [image for image in images if not image.usedBy]
    spare = sum(image.sizeBytes for image in unused)
    return (
        f"{plural(len(images), 'image')}, {size(total)} · {len(unused)} unused, {size(spare)}"
        f" ({percent(spare, total) or '0%'})"
    )
