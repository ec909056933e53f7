"""Cron schedules in the syntax of CronJobs: five fields (minute, hour, day of the month, month, day
of the week), or a descriptor such as ``@daily`` or ``@every 1h30m``.

The syntax, its error texts and the choice of times are those of robfig/cron v3, which a CronJob
uses. Libraries for Python accept more (seconds, ``L``, ``#``, 7 for Sunday) and say other words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS: Final = "sun mon tue wed thu fri sat".split()
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_INT_BITS: Final = 63
_LAST_YEARS: Final = 5
"""A schedule without a time in the next years has none, such as February 30."""


class CronError(ValueError):
    """Raised for a text that is not a schedule; the text is that of robfig/cron."""


class _Bounds(NamedTuple):
    """The smallest and the largest number of a field, and names for numbers."""

    least: int
    most: int
    names: Mapping[str, int] = MappingProxyType({})


_FIELDS: Final = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: index for index, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: index for index, name in enumerate(_DAYS)}),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A schedule with a time every ``seconds``."""

    seconds: int

    def following(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the next time after ``moment``."""
        return moment.replace(microsecond=0) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A schedule of fields. If both days are restricted, one of them has to match."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    every_day: bool
    """The day of the month is not restricted."""
    every_weekday: bool
    zone: tzinfo | None = None
    """The time zone in the schedule itself."""

    def following(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the next time after ``moment`` on the clocks of the time zone; None if there is
        none in the next years. An hour that clocks skip is no time, one that they repeat is two."""
        zone = self.zone or zone
        now = moment.astimezone(zone)
        now = _later(now.replace(second=0, microsecond=0), minutes=1)
        last = now.year + _LAST_YEARS
        possible = self.minutes and self.hours and self.days and self.months and self.weekdays
        while possible and now.year <= last:
            if now.month not in self.months:
                year, month = divmod(now.year * 12 + now.month, 12)
                now = datetime(year, month + 1, 1, tzinfo=zone)
            elif not self._matches_day(now):
                day = now.date() + timedelta(days=1)
                now = datetime(day.year, day.month, day.day, tzinfo=zone)
            elif now.hour not in self.hours:
                now = _later(now.replace(minute=0), hours=1)
            elif now.minute not in self.minutes:
                now = _later(now, minutes=1)
            else:
                return now.astimezone(moment.tzinfo)
        return None

    def _matches_day(self, day: datetime) -> bool:
        of_month = day.day in self.days
        of_week = day.isoweekday() % 7 in self.weekdays
        if self.every_day or self.every_weekday:
            return of_month and of_week
        return of_month or of_week


def _later(moment: datetime, **amount: int) -> datetime:
    """Return a time that is later by an amount of real time, not of time on the clock."""
    return (moment.astimezone(UTC) + timedelta(**amount)).astimezone(moment.tzinfo)


def parse_schedule(text: str) -> CronSchedule | Interval:
    """Raises `CronError`."""
    if not text:
        raise CronError("empty spec string")
    zone = None
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, space, rest = text.partition("=")[2].partition(" ")
        if not space:
            why = "runtime error: slice bounds out of range [:-1]"
            raise CronError(f"invalid schedule format: {why}")
        zone = _zone(name)
        text = rest.strip()
    if text.startswith("@"):
        return _descriptor(text, zone)
    fields = text.split()
    if len(fields) != len(_FIELDS):
        count, shown = len(fields), " ".join(fields)
        raise CronError(f"expected exactly {len(_FIELDS)} fields, found {count}: [{shown}]")
    return _schedule(fields, zone)


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of a name in the time zone database; None if there is none."""
    try:
        return ZoneInfo(name or "UTC")
    except (ValueError, OSError, KeyError):
        return None


def _zone(name: str) -> ZoneInfo:
    zone = find_zone(name)
    if zone is None:
        raise CronError(f"provided bad location {name}: unknown time zone {name}")
    return zone


def _descriptor(text: str, zone: tzinfo | None) -> CronSchedule | Interval:
    if text in _DESCRIPTORS:
        return _schedule(_DESCRIPTORS[text].split(), zone)
    if not text.startswith(_EVERY):
        raise CronError(f"unrecognized descriptor: {text}")
    try:
        return Interval(max(1, int(parse_duration(text.removeprefix(_EVERY)))))
    except CronError as error:
        raise CronError(f"failed to parse duration {text}: {error}") from error


def parse_duration(text: str) -> Fraction:
    """Read a duration such as ``1h30m``, in seconds. Raises `CronError` with Go's texts."""
    rest = text.lstrip("+-") if text[:1] in ("+", "-") and text[1:2] not in ("+", "-") else text
    if rest == "0":
        return Fraction(0)
    total = Fraction(0)
    if not rest:
        raise CronError(f'time: invalid duration "{text}"')
    while rest:
        number = re.match(r"\d+\.?\d*|\.\d+", rest, re.ASCII)
        if number is None:
            raise CronError(f'time: invalid duration "{text}"')
        rest = rest[number.end() :]
        unit = re.match(r"[^.\d]*", rest, re.ASCII)
        name = unit.group() if unit is not None else ""
        if not name:
            raise CronError(f'time: missing unit in duration "{text}"')
        if name not in _UNITS:
            raise CronError(f'time: unknown unit "{name}" in duration "{text}"')
        total += Fraction(number.group().rstrip(".") or "0") * _UNITS[name]
        rest = rest[len(name) :]
    return -total if text.startswith("-") else total


def _schedule(fields: list[str], zone: tzinfo | None) -> CronSchedule:
    sets = [_field(text, bounds) for text, bounds in zip(fields, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, every_day), (months, _), (weekdays, every_weekday) = sets
    return CronSchedule(minutes, hours, days, months, weekdays, every_day, every_weekday, zone)


def _field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """Return the numbers of a field, and whether it has a star without a step."""
    numbers: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        values, is_star = _range(part, bounds)
        numbers.update(values)
        star |= is_star
    return frozenset(numbers), star


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    parts = text.split("/")
    limits = parts[0].split("-")
    star = limits[0] in ("*", "?")
    if star:
        first, last = bounds.least, bounds.most
    else:
        first = _number_or_name(limits[0], bounds)
        if len(limits) > 2:
            raise CronError(f"too many hyphens: {text}")
        last = _number_or_name(limits[1], bounds) if len(limits) == 2 else first
    if len(parts) > 2:
        raise CronError(f"too many slashes: {text}")
    step = 1
    if len(parts) == 2:
        step = _number(parts[1])
        # "3/5" is "3-59/5".
        last = bounds.most if len(limits) == 1 else last
    if first < bounds.least:
        why = f"beginning of range ({first}) below minimum ({bounds.least})"
    elif last > bounds.most:
        why = f"end of range ({last}) above maximum ({bounds.most})"
    elif first > last:
        why = f"beginning of range ({first}) beyond end of range ({last})"
    elif step == 0:
        why = "step of range should be a positive number"
    else:
        return range(first, last + 1, step), star and step == 1
    raise CronError(f"{why}: {text}")


def _number_or_name(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    problem = ""
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None:
        problem = "invalid syntax"
    elif len(text.lstrip("+-0")) > 19 or not -(1 << _INT_BITS) <= int(text) < 1 << _INT_BITS:
        problem = "value out of range"
    if problem:
        why = f'strconv.Atoi: parsing "{text}": {problem}'
        raise CronError(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number
