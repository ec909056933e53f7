"""Image pulls and their progress, from the records of the pods."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.local import PullStep
from podtui.api.names import PULL_PROGRESS
from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.text.terminal_text import plural
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.format import KI, percent, size
from podtui.tui.widgets.sanitize import clean

_TEXT: Final = re.compile(
    r"(?P<label>[^:]*): (?P<status>.*?)(?: (?P<current>\d{1,18})/(?P<total>\d{1,18}))?", re.ASCII
)
_DONE: Final = ("Extracting", "Verifying Checksum", "Pull complete", "Download complete")


class Stage(IntEnum):
    """The stage of a pull; the values are in order."""

    WAITING = 0
    PULLING = 1
    UNPACKING = 2


_WORDS: Final = {
    Stage.WAITING: "queued to pull",
    Stage.PULLING: "pulling",
    Stage.UNPACKING: "unpacking",
}


class Pull(Struct, frozen=True):
    """An image pull. ``current`` and ``total`` are bytes of the layers known so far, 0 if none is
    known. ``pods`` are the labels of the waiting pods; empty for a pull on the user's request.
    """

    image: str
    stage: Stage
    current: int = 0
    total: int = 0
    pods: tuple[str, ...] = ()

    @property
    def amount(self) -> str:
        """The progress, such as ``41% 12/29Mi``; empty while no size is known."""
        if not self.total:
            return ""
        return f"{percent(self.current, self.total)} {part_of(self.current, self.total)}"


def part_of(current: int, total: int) -> str:
    """Return ``12/29Mi``, ``1.2/3.8Gi``: both numbers in the unit of the total."""
    whole = size(total)
    power = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}.get(whole[-2:], 0)
    part = current / KI**power
    digits = 1 if "." in whole and part < 100 else 0
    return f"{part:.{digits}f}/{whole}"


def stage_of(status: str, current: int, total: int) -> Stage:
    """Return the stage for ``status``, the engine's text with or without a layer ID in front."""
    if status == "Waiting":
        return Stage.WAITING
    at_end = status.rpartition(": ")[2] in _DONE
    return Stage.UNPACKING if at_end and 0 < total <= current else Stage.PULLING


def requested_pull(image: str, step: PullStep) -> Pull:
    """Return the `Pull` of an image that the user requested, from its current step."""
    return Pull(image, stage_of(step.status, step.current, step.total), step.current, step.total)


def recorded_pull(pod: Pod) -> Pull | None:
    """Return the pull that a pod waits for, from its own record; None if there is none."""
    text = pod.metadata.annotations.get(PULL_PROGRESS, "")
    match = _TEXT.fullmatch(text) if text else None
    if match is None:
        return None
    current, total = int(match["current"] or 0), int(match["total"] or 0)
    return Pull(
        _image(pod, match["label"]),
        stage_of(match["status"], current, total),
        min(current, total),
        total,
        (pod_label(pod),),
    )


def _image(pod: Pod, label: str) -> str:
    """Return the image for the name of a container or an image volume."""
    for _, container in all_containers(pod):
        if container.name == label:
            return container.image
    for volume in pod.spec.volumes:
        if volume.name == label and volume.image is not None:
            return volume.image.reference
    return label


def pulls_of(pods: Iterable[Pod]) -> tuple[Pull, ...]:
    """Return the pull of each image once, with all waiting pods and their most advanced
    progress.
    """
    pulls: dict[str, Pull] = {}
    for pod in pods:
        pull = recorded_pull(pod)
        if pull is not None:
            before = pulls.get(pull.image)
            pulls[pull.image] = pull if before is None else _merged(before, pull)
    return tuple(pulls.values())


def _merged(pull: Pull, other: Pull) -> Pull:
    ahead = max(pull, other, key=lambda pull: (pull.stage, pull.current, pull.total))
    return replace(ahead, pods=(*pull.pods, *other.pods))


def pull_of(pod: Pod, pods: Iterable[Pod]) -> Pull | None:
    """Return the pull that a pod waits for, with the progress from any pod with the same image."""
    recorded = recorded_pull(pod)
    if recorded is None:
        return None
    return next((pull for pull in pulls_of(pods) if pull.image == recorded.image), recorded)


def pull_line(pull: Pull) -> Line:
    """Return a line such as ``◔ pulling nginx:1.27 41% 12/29Mi · 3 pods waiting``."""
    spans = [
        Span("◔ ", "pending"),
        Span(f"{_WORDS[pull.stage]} ", "soft"),
        Span(clean(pull.image), "name"),
    ]
    if pull.amount:
        spans.append(Span(f" {pull.amount}", "pending"))
    if len(pull.pods) > 1:
        spans.append(Span(f" · {plural(len(pull.pods), 'pod')} waiting", "muted"))
    return tuple(spans)


def pulls_text(pulls: Iterable[Pull]) -> str:
    """Return a summary such as ``nginx:1.27 41% 12/29Mi · redis:7``."""
    return " · ".join(f"{clean(pull.image)} {pull.amount}".strip() for pull in pulls)
