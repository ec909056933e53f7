"""Rules for the annotations that have a meaning on a pod."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import msgspec

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import Pod, Toleration
from podtui.manifest.validation import profiles
from podtui.manifest.validation.errors import Errors, invalid
from podtui.manifest.validation.scheduling import tolerations

TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_WHOLE: Final = re.compile("-[0-9]{1,32}|0|[1-9][0-9]{0,31}")


def known_annotations(pod: Pod, path: str) -> Errors:
    entries = pod.metadata.annotations
    if CONFIG_MIRROR in entries and not pod.spec.nodeName:
        yield invalid(
            f"{path}[{CONFIG_MIRROR}]",
            entries[CONFIG_MIRROR],
            "must set spec.nodeName if mirror pod annotation is set",
        )
    if entries.get(TOLERATIONS):
        at = f"{path}[{TOLERATIONS}]"
        try:
            wanted = msgspec.json.decode(entries[TOLERATIONS], type=tuple[Toleration, ...])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            truncated = "truncated" in str(error)
            why = "unexpected end of JSON input" if truncated else str(error)
            yield invalid(path, TOLERATIONS, why, at=at)
        else:
            for error in tolerations(wanted, f"{path}.{TOLERATIONS}"):
                yield replace(error, at=at)
    cost = entries.get(DELETION_COST)
    if cost is not None:
        whole = _WHOLE.fullmatch(cost) is not None
        if not whole or not -(2**31) <= int(cost) < 2**31:
            yield invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    yield from profiles.profile_annotations(pod, path)
