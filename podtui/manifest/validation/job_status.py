"""The API server's rules for the status of a Job. Most apply only if an update changes the fields
that they compare, so that a status can be corrected step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podtui.api.batch import Job, JobStatus
from podtui.api.times import parse_time
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    OMITTED,
    Errors,
    FieldError,
    duplicate,
    invalid,
    quoted,
    required,
)

INDEXED: Final = "Indexed"
_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")


def is_true(item: Job, condition: str) -> bool:
    return _has(item, condition, "True")


def _has(item: Job, condition: str, status: str) -> bool:
    conditions = item.status.conditions
    return any(entry.type == condition and entry.status == status for entry in conditions)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The conditions of a Job that say how it ends."""

    complete: bool
    failed: bool
    failing: bool
    succeeding: bool

    @property
    def finished(self) -> bool:
        return self.complete or self.failed


def _outcome(item: Job) -> _Outcome:
    names = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
    return _Outcome(*(is_true(item, name) for name in names))


@dataclass(frozen=True, slots=True)
class _Update:
    """An update of a status."""

    new: Job
    old: Job
    now: _Outcome
    then: _Outcome

    def changes(self, *names: str) -> bool:
        """Return whether one of these fields of the status changes."""
        new, old = self.new.status, self.old.status
        return any((getattr(new, name) or None) != (getattr(old, name) or None) for name in names)

    def turns(self, *names: str) -> bool:
        """Return whether one of these parts of the outcome changes."""
        return any(getattr(self.now, name) != getattr(self.then, name) for name in names)


def job_status(new: Job, old: Job) -> Errors:
    """The rules for an update of the status."""
    update = _Update(new, old, _outcome(new), _outcome(old))
    yield from _numbers(new.status)
    yield from _end(update)
    yield from _pods_of_finished(update)
    yield from _indexes(update)
    yield from _pods(update)
    yield from _success(update)
    yield from _irreversible(update)


def _conditions(why: str) -> FieldError:
    return invalid("status.conditions", OMITTED, why)


def _numbers(status: JobStatus) -> Errors:
    for name in _COUNTS:
        yield from formats.nonnegative(getattr(status, name), f"status.{name}")
    pods = status.uncountedTerminatedPods
    if pods is None:
        return
    seen: set[str] = set()
    for name, uids in (("succeeded", pods.succeeded), ("failed", pods.failed)):
        for index, uid in enumerate(uids):
            path = f"status.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                yield invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def _end(update: _Update) -> Errors:
    now, status = update.now, update.new.status
    started, ended = parse_time(status.startTime), parse_time(status.completionTime)
    path = "status.completionTime"
    if update.turns("complete", "failed") and now.complete and now.failed:
        yield _conditions("cannot set Complete=True and Failed=true conditions")
    if update.turns("complete", "failing") and now.complete and now.failing:
        yield _conditions("cannot set Complete=True and FailureTarget=true conditions")
    if update.turns("complete") or update.changes("completionTime"):
        if ended is not None and not now.complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(path, status.completionTime, why)
        if ended is None and now.complete:
            yield required(path, "completionTime is required for Complete jobs")
    if update.changes("startTime", "completionTime") and started and ended and ended < started:
        yield invalid(path, status.completionTime, "must be equal to or after `startTime`")
    checked = update.turns("failed") or update.changes("failedIndexes")
    if checked and now.failed and not now.failing:
        why = "cannot set Failed=True condition without the FailureTarget=true condition"
        yield _conditions(why)
    if update.turns("complete", "succeeding") and now.complete and not now.succeeding:
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        yield _conditions(why)


def _pods_of_finished(update: _Update) -> Errors:
    if not update.now.finished:
        return
    spec, status, ends = update.new.spec, update.new.status, update.turns("finished")
    if (ends or update.changes("active")) and (status.active or 0) > 0:
        yield invalid("status.active", status.active, "active>0 is invalid for finished job")
    empty = spec.suspend and spec.completions == 0
    if (ends or update.changes("startTime")) and not status.startTime and not empty:
        yield required("status.startTime", "startTime is required for finished job")
    pods = status.uncountedTerminatedPods
    counted = pods is None or not (pods.failed or pods.succeeded)
    if (ends or update.changes("uncountedTerminatedPods")) and not counted:
        why = "must be empty for finished job"
        yield invalid("status.uncountedTerminatedPods", pods, why)


def _indexes(update: _Update) -> Errors:
    spec, status = update.new.spec, update.new.status
    completed, failed = status.completedIndexes, status.failedIndexes
    count, per_index = spec.completions, spec.backoffLimitPerIndex is not None
    if update.changes("completedIndexes") and count is not None:
        yield from _index_format("completedIndexes", completed, count)
    if update.changes("failedIndexes") and count is not None and per_index and failed:
        yield from _index_format("failedIndexes", failed, count)
    if update.changes("completedIndexes") and completed and spec.completionMode != INDEXED:
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, why)
    path = "status.failedIndexes"
    if update.changes("failedIndexes") and not per_index and failed:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(path, failed, why)
    if update.changes("failedIndexes", "completedIndexes") and count is not None:
        shared = _first_shared(completed, failed, count)
        if shared is not None:
            why = f"failedIndexes and completedIndexes overlap at index: {shared}"
            yield invalid(path, failed, why)


def _index_format(name: str, text: str, completions: int) -> Errors:
    try:
        count_indexes(text, completions)
    except ValueError as error:
        yield invalid(f"status.{name}", text, f"error parsing {name}: {error}")


def _first_shared(first: str, second: str, completions: int) -> int | None:
    """Return the first index that two lists share. Parts that are no indexes are skipped."""
    mine, others = _intervals(first, completions), _intervals(second, completions)
    shared = (
        max(low, start)
        for low, high in mine
        for start, end in others
        if low <= end and start <= high
    )
    return min(shared, default=None)


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        try:
            intervals.append(_interval(part, completions))
        except ValueError:
            continue
    return intervals


def _pods(update: _Update) -> Errors:
    status = update.new.status
    terminating, ready = status.terminating or 0, status.ready or 0
    if (
        (update.turns("finished") or update.changes("terminating"))
        and terminating > 0
        and update.now.finished
    ):
        why = "terminating>0 is invalid for finished job"
        yield invalid("status.terminating", terminating, why)
    if update.changes("ready", "active") and ready > (status.active or 0):
        yield invalid("status.ready", ready, "cannot set more ready pods than active")


def _success(update: _Update) -> Errors:
    now = update.now
    if now.succeeding and now.failed:
        yield _conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if now.succeeding and now.failing:
        yield _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if update.new.spec.successPolicy is not None and now.complete and not now.succeeding:
        why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _conditions(why)


def _irreversible(update: _Update) -> Errors:
    new, old, spec = update.new, update.old, update.new.spec
    status, before = new.status, old.status
    for name in _TERMINAL:
        if is_true(old, name) and not is_true(new, name):
            yield _conditions(f"cannot disable the terminal {name}=True condition")
    if (status.failed or 0) < (before.failed or 0):
        yield invalid("status.failed", status.failed or 0, "cannot decrease the failed counter")
    scales = spec.completionMode == INDEXED and spec.completions == spec.parallelism
    if not scales and (status.succeeded or 0) < (before.succeeded or 0):
        why = "cannot decrease the succeeded counter"
        yield invalid("status.succeeded", status.succeeded or 0, why)
    if status.completionTime and before.completionTime and update.changes("completionTime"):
        yield invalid("status.completionTime", status.completionTime, "field is immutable")
    resumes = _has(old, "Suspended", "True") and _has(new, "Suspended", "False")
    moved = update.changes("startTime") and bool(before.startTime)
    if moved and not resumes and not spec.suspend:
        why = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", status.startTime, why)
    if update.then.succeeding and not update.now.succeeding:
        yield _conditions("cannot disable the SuccessCriteriaMet=True condition")
    if update.then.complete and not update.then.succeeding and update.now.succeeding:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _conditions(why)


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a text such as ``0,2-5``, which has to be in order. Raises
    `ValueError`."""
    total, before = 0, -1
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if before >= first:
            raise ValueError(f"non-increasing order, previous: {before}, current: {first}")
        total += last - first + 1
        before = last
    return total


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f"the fragment {quoted(text)} violates the requirement that an index interval can have"
            " at most two parts separated by '-'"
        )
    numbers: list[int] = []
    for limit in limits:
        try:
            number = int(limit) if limit.isascii() and "_" not in limit else None
        except ValueError:
            number = None
        if number is None or limit != limit.strip():
            raise ValueError(f"cannot convert string to integer for index: {quoted(limit)}")
        if number >= completions:
            raise ValueError(f"too large index: {quoted(limit)}")
        numbers.append(number)
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 2 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last
