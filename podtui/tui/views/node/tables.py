"""Table rows for the node's pods, images and rejected pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from podtui.api.local import NodeImage
from podtui.api.times import epoch
from podtui.api.v1 import Pod
from podtui.text.terminal_text import plural
from podtui.tui.model.model import pod_key
from podtui.tui.model.usage import Usage
from podtui.tui.views.node.allocation import PodRequests, RejectedPod
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.format import millicores, natural_key, percent, size
from podtui.tui.widgets.sanitize import clean

_NONE: Final = Cell("-", "muted")


class _Share(Struct, frozen=True):
    """The object of `SHARE_COLUMNS`. Percentages are of allocatable."""

    ask: PodRequests
    usage: Mapping[str, int]
    allocatable: Mapping[str, int]

    def percent(self, resource: str) -> int:
        """Return the larger of request and usage as a percentage."""
        largest = max(self.ask.requests[resource], self.usage[resource])
        return 100 * largest // max(1, self.allocatable.get(resource, 0))


def _amount(text: Callable[[int], str], count: int) -> ColumnValue:
    return ColumnValue(Cell(text(count)) if count else _NONE, count, float(count))


def _percentage(percents: int) -> ColumnValue:
    if percents < 70:
        cell = Cell(f"{percents}%") if percents else _NONE
    else:
        cell = Cell(f"▲{percents}%", "warning") if percents < 90 else Cell(f"✖{percents}%", "error")
    return ColumnValue(cell, percents, float(percents))


def _name(label: str) -> ColumnValue:
    return ColumnValue(Cell(label, "name"), natural_key(label), label)


def _since(moment: float | None) -> ColumnValue:
    return ColumnValue(_NONE if moment is None else Cell(since=moment), -(moment or 0.0), moment)


SHARE_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=12, maximum=64, flexible=True, middle_cut=True,
           filling=True, of=lambda share: _name(share.ask.label)),
    Column("cpu-requested", "CPU REQ", 90, align="right", descending=True, kind=ValueKind.CPU,
           of=lambda share: _amount(millicores, share.ask.requests["cpu"])),
    Column("cpu-limit", "CPU LIM", 60, align="right", descending=True, kind=ValueKind.CPU,
           of=lambda share: _amount(millicores, share.ask.limits["cpu"])),
    Column("cpu-used", "CPU USED", 85, align="right", descending=True, kind=ValueKind.CPU,
           of=lambda share: _amount(millicores, share.usage["cpu"])),
    Column("cpu-share", "%CPU", 70, align="right", descending=True, kind=ValueKind.PERCENT,
           of=lambda share: _percentage(share.percent("cpu"))),
    Column("memory-requested", "MEM REQ", 89, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda share: _amount(size, share.ask.requests["memory"])),
    Column("memory-limit", "MEM LIM", 59, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda share: _amount(size, share.ask.limits["memory"])),
    Column("memory-used", "MEM USED", 84, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda share: _amount(size, share.usage["memory"])),
    Column("memory-share", "%MEM", 69, align="right", descending=True, kind=ValueKind.PERCENT,
           of=lambda share: _percentage(share.percent("memory"))),
    Column("storage", "STORAGE", 50, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda share: _amount(size, share.ask.requests["ephemeral-storage"])),
)  # fmt: skip


def share_row(pod: Pod, ask: PodRequests, use: Usage | None, allocatable: Mapping[str, int]) -> Row:
    """Return the row of a pod."""
    usage = {"cpu": use.cpu if use else 0, "memory": use.memory if use else 0}
    return Row(
        pod_key(pod),
        *content_of(SHARE_COLUMNS, _Share(ask, usage, allocatable)),
        search=ask.label,
        labels=pod.metadata.labels,
    )


def _names(image: NodeImage) -> list[str]:
    return [clean(name) for name in image.names] or [clean(image.id)]


def _first_name(image: NodeImage) -> ColumnValue:
    first, *others = _names(image)
    text = first + (f" +{len(others)}" if others else "")
    return ColumnValue(Cell(text, "name"), natural_key(first), first)


def _user_count(image: NodeImage) -> ColumnValue:
    count = len(image.users)
    return ColumnValue(Cell(str(count)) if count else _NONE, count, float(count))


def _users(image: NodeImage) -> ColumnValue:
    """Return the users, shown without the namespace ``default``."""
    users = [clean(user) for user in image.users]
    text = " ".join(users)
    shown = " ".join(user.removeprefix("default/") for user in users)
    return ColumnValue(Cell(shown, "soft") if users else _NONE, natural_key(text), text)


IMAGE_COLUMNS: Final = (
    Column("image", "IMAGE", 100, minimum=16, maximum=96, flexible=True, filling=True,
           of=_first_name),
    Column("size", "SIZE", 90, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda image: ColumnValue(
               Cell(size(image.sizeBytes)), image.sizeBytes, float(image.sizeBytes))),
    Column("age", "AGE", 80, align="right", kind=ValueKind.AGE,
           of=lambda image: _since(epoch(image.created))),
    Column("used", "USES", 70, align="right", descending=True, kind=ValueKind.COUNT,
           of=_user_count),
    Column("users", "USED BY", 60, minimum=9, maximum=48, flexible=True, of=_users),
    Column("when-unused", "WHEN UNUSED", 50, maximum=16,
           of=lambda image: (text_field("collected", "warning") if image.collectable
                             else text_field("kept", "muted"))),
)  # fmt: skip


def image_row(image: NodeImage) -> Row:
    """Return the row of an image."""
    return Row(
        image.id,
        *content_of(IMAGE_COLUMNS, image),
        search=" ".join((*_names(image), *map(clean, image.users))),
    )


class _Rejected(Struct, frozen=True):
    """The object of `REJECTED_COLUMNS`."""

    pod: Pod
    rejection: RejectedPod


def _verdict(subject: _Rejected) -> ColumnValue:
    fits = subject.rejection.fits
    cell = Cell("✔ fits", "good") if fits else Cell("✖ no room", "error")
    return ColumnValue(cell, fits, cell.text)


def _started(subject: _Rejected) -> ColumnValue:
    return _since(
        epoch(subject.pod.status.startTime) or epoch(subject.pod.metadata.creationTimestamp)
    )


REJECTED_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=12, maximum=48, flexible=True, middle_cut=True,
           of=lambda subject: _name(subject.rejection.name)),
    Column("now", "NOW", 95, maximum=10, of=_verdict),
    Column("reason", "REASON", 80, minimum=10, maximum=32, flexible=True,
           of=lambda subject: text_field(subject.rejection.reason, "error")),
    Column("age", "AGE", 60, align="right", kind=ValueKind.AGE, of=_started),
    Column("missing", "MISSING", 90, minimum=20, maximum=200, flexible=True, filling=True,
           of=lambda subject: text_field(subject.rejection.missing, "soft")),
)  # fmt: skip


def rejected_row(pod: Pod, rejection: RejectedPod) -> Row:
    """Return the row of a rejected pod."""
    return Row(
        rejection.key,
        *content_of(REJECTED_COLUMNS, _Rejected(pod, rejection)),
        search=f"{rejection.name} {rejection.reason} {rejection.missing}",
        fault=not rejection.fits,
    )


def image_summary(images: Sequence[NodeImage]) -> str:
    """Summarize the number and size of all images and of the unused ones."""
    total = sum(image.sizeBytes for image in images)
    unused = [image for image in images if not image.users]
    spare = sum(image.sizeBytes for image in unused)
    return (
        f"{plural(len(images), 'image')}, {size(total)} · {len(unused)} unused, {size(spare)}"
        f" ({percent(spare, total) or '0%'})"
    )
