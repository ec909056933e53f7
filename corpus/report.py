"""The tables of ``docs/corpus.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from corpus.apps import Skipped, Workload
from corpus.trial import Outcome, Run
from podtui.text.terminal_text import one_line

_LONGEST = 300
_TEMPORARY = re.compile(r"/\S*/podtui-corpus-[^/\s]+/(?:folder/|root/)?")


def markdown(outcomes: Sequence[Outcome], skipped: Skipped, conditions: str) -> str:
    """Return the document."""
    parts = [
        _HEAD,
        conditions,
        "## Started",
        _totals(outcomes),
        _fixed(outcomes),
        "## What stopped the rest",
        _REST,
    ]
    for repository, group in _by_repository(outcomes):
        rows = list(_rest(group))
        if rows:
            parts += [f"### {repository}", _table(("app", "workloads", "what podtui says"), rows)]
    parts += ["## Documents that are not applied", _NOT_APPLIED, _documents(outcomes)]
    parts += ["## What is no app", _skipped(skipped)]
    return "\n\n".join(parts) + "\n"


_HEAD = """\
# The manifests people have

`make corpus FROM=PATH` runs the apps of repositories below a folder or in an archive, and writes
this page. An app is a folder with workloads, also one whose workloads `kubectl kustomize` prints.
The first folder of a path is the repository.

Each app is copied to a fresh folder, after `podtui check --fix` as a user would run it, with an
agent of its own on the simulated engine, whose init containers and containers of Jobs exit with 0
at once (`simulatedEngine`). The machine is large enough, and its node has the labels that the app
selects. A workload has started if as many pods as it asks for run or have completed; an app, if all
its workloads have. A CronJob gets a Job at once.
Versions of one object in several files of an app are one workload.

Apps are complete if they contain the ConfigMaps, Secrets, claims, volumes, classes and service
accounts that they refer to, and need no devices, no storage of other machines (also behind a
PersistentVolume), no second node (anti-affinity, pods with the same `hostPort`) and no values for
placeholders (`PROJECT_ID` in the name of an image). The others also count as started only if all
their pods run; a table below counts what they lack. Nothing else is left out: apps also count that
the API of a cluster refuses, or whose programs fail by design. The last column counts their
workloads again after the missing objects have been created, with any values; devices and storage
are not simulated."""

_LACKS = "An app may lack several of these."

_REST = """\
A row for each cause, with what podtui says. "needs" lists what an incomplete app does not
contain."""

_NOT_APPLIED = """\
Documents of all apps, by what podtui says about them. `NAME` is the name of the object."""


def _by_repository(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    groups = dict[str, list[Outcome]]()
    for outcome in outcomes:
        groups.setdefault(outcome.app.repository, []).append(outcome)
    yield from sorted(groups.items())


def _totals(outcomes: Sequence[Outcome]) -> str:
    rows = [_row(repository, group) for repository, group in _by_repository(outcomes)]
    rows.append(_row("**all**", outcomes))
    heads = (
        "repository", "apps", "started", "workloads", "started",
        "complete apps", "started", "workloads of complete apps", "started",
        "workloads started with what they need",
    )  # fmt: skip
    return _table(heads, rows)


def _fixed(outcomes: Sequence[Outcome]) -> str:
    """Say how many apps depend on ``podtui check --fix``."""
    changed = [outcome for outcome in outcomes if outcome.fixed]
    complete = [outcome for outcome in changed if not outcome.outside]
    started = sum(outcome.alone.started for outcome in complete)
    files = sum(len(outcome.fixed) for outcome in changed)
    return (
        f"`podtui check --fix` changed {files} files of {len(changed)} apps, mostly former versions"
        f" of the API. {len(complete)} of these apps are complete, and {started} of those started."
    )


def _row(name: str, group: Sequence[Outcome]) -> tuple[str, ...]:
    complete = [outcome for outcome in group if not outcome.outside]
    return (
        name,
        *_shares(group, lambda outcome: outcome.alone),
        *_shares(complete, lambda outcome: outcome.alone),
        _shares(group, lambda outcome: outcome.given)[3],
    )


def _shares(group: Sequence[Outcome], run: Callable[[Outcome], Run]) -> tuple[str, str, str, str]:
    apps, workloads = len(group), sum(len(outcome.app.workloads) for outcome in group)
    started = sum(run(outcome).started for outcome in group)
    count = sum(run(outcome).count for outcome in group)
    return str(apps), _share(started, apps), str(workloads), _share(count, workloads)


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "–"


def _lacks(outcomes: Iterable[Outcome]) -> str:
    counts = Counter[str]()
    for outcome in outcomes:
        kinds = {kind for kind, _, _ in outcome.outside.objects}
        counts.update(kinds | {_need(text) for text in outcome.outside.machine})
    rows = [(need, str(count)) for need, count in counts.most_common()]
    return _table(("missing", "apps"), rows)


def _need(text: str) -> str:
    """Return the class of a need of the machine: ``device``, ``volume``, ``nodes`` and so on."""
    first, _, rest = text.partition(" ")
    if first.isdigit():
        return "several nodes"
    return {"a": "a value for a placeholder", "volume": f"volume {rest.split(' ')[0]}"}.get(
        first, first
    )


def _rest(group: Iterable[Outcome]) -> Iterator[tuple[str, str, str]]:
    for outcome in group:
        if outcome.failure:
            yield outcome.app.folder, "–", f"**failure**: {outcome.failure}"
        causes = dict[str, list[Workload]]()
        for workload, said in outcome.alone.said.items():
            text = said.text or f"nothing: {outcome.alone.verdicts[workload].problem}"
            causes.setdefault(text, []).append(workload)
        needs = f"needs {outcome.outside}. " if outcome.outside else ""
        for text, workloads in causes.items():
            names = ", ".join(f"{workload.kind} {workload.name}" for workload in workloads)
            yield outcome.app.folder, names, needs + text


def _documents(outcomes: Iterable[Outcome]) -> str:
    counts = Counter(
        (result, _general(item, text))
        for outcome in outcomes
        for result, item, text in outcome.alone.not_applied
    )
    rows = [
        (str(count), result, text)
        for (result, text), count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return _table(("documents", "outcome", "what podtui says"), rows)


def _general(item: str, text: str) -> str:
    """Return a text without the name of its object, so that equal messages are one row."""
    kind, _, name = item.partition(" ")
    for known in sorted({name, name.removesuffix("-corpus")} - {""}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(known)}(?![\w-])", "NAME", text)
    return f"{kind}: {text}" if kind not in text else text


def _skipped(skipped: Skipped) -> str:
    files = f"{len(skipped.templates)} files are templates of Helm or other programs"
    lines = [f"{files}, which need to be rendered first."]
    if skipped.kustomizations:
        lines.append("`kubectl kustomize` refuses these folders:")
        rows = [(folder, error.splitlines()[0]) for folder, error in skipped.kustomizations]
        lines.append(_table(("folder", "error"), rows))
    return "\n\n".join(lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(heads), "|" + "---|" * len(heads)]
    lines += [_line([_cell(cell) for cell in row]) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    plain = one_line(_TEMPORARY.sub("", text))
    cut = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
    return cut.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
