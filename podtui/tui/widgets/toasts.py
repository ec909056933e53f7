"""Which notices stand on the screen at once: few, and none twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from textual.notifications import Notification, Notifications

MOST: Final = 3
_Words = tuple[str, str, str]


class Toasts(Notifications):
    """At most `MOST`, the newest. One that stands already is shown once, with how often it came
    (``×3``), for as long as the last one asks."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[_Words, int]] = {}
        """By identity: the words as they came, and how often they did."""

    def add(self, notification: Notification) -> Self:
        standing = tuple(self)
        words = (notification.title, notification.message, notification.severity)
        count = 1
        for before in standing:
            known, times = self._said.get(before.identity, (None, 0))
            if known == words:
                count += times
                del self[before]
        super().add(counted(notification, count))
        shown = tuple(self)
        for oldest in shown[:-MOST]:
            del self[oldest]
        self._said = {
            one.identity: self._said[one.identity]
            for one in shown[-MOST:]
            if one.identity in self._said
        }
        self._said[notification.identity] = (words, count)
        return self


def counted(notification: Notification, count: int) -> Notification:
    """The notice with how often it came, behind its title where it has one."""
    if count < 2:
        return notification
    if notification.title:
        return replace(notification, title=f"{notification.title} ×{count}")
    return replace(notification, message=f"{notification.message} ×{count}")
