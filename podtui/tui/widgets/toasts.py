"""Limit the notifications on the screen to a few, without duplicates."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from textual.notifications import Notification, Notifications

MOST: Final = 3
_Words = tuple[str, str, str]


class Toasts(Notifications):
    """Keeps the newest `MOST` notifications.

    Repeated notifications are merged into one with a count (``×3``) and the timeout of the last.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[_Words, int]] = {}
        """By identity: (original title, message and severity; count)."""

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
    """Append the count to the title of a notification, or to its message if it has no title."""
    if count < 2:
        return notification
    if notification.title:
        return replace(notification, title=f"{notification.title} ×{count}")
    return replace(notification, message=f"{notification.message} ×{count}")
