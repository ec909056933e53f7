"""``podtui check --fix``: shows the mechanical fixes of manifests, and writes them."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from podtui.api.local import ManifestState, Severity
from podtui.editing.findings import is_better
from podtui.errors import PodtuiError, UsageError
from podtui.manifest.check import check_paths
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import FURTHER_DOCUMENT, MAX_BYTES, source_lines
from podtui.manifest.fixes import Fixed, fix_text
from podtui.settings import Settings
from podtui.text.terminal_text import lines, plural
from podtui.tui.commands.manifest_file import read_manifest_file, write_manifest_file

STDIN: Final = "-"
_CONTEXT: Final = 3
_TONES: Final = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}
_RESET: Final = "\x1b[0m"


def fix(
    paths: Sequence[Path],
    settings: Settings,
    *,
    yes: bool,
    color: bool,
    confirm: Callable[[str], bool],
    out: Callable[[str], None],
) -> bool:
    """Show the fixes of all files and write them, after a question or with ``yes``; return whether
    nothing remains to be written.

    Without a terminal for the question, nothing is written. ``out`` prints a text.
    """
    changed = _fixed_files(paths, settings)
    for path, fixed in changed.items():
        out("\n".join(diff(str(path), fixed, color=color)))
    if not changed:
        out("There is nothing to fix mechanically.")
        return True
    count = sum(len(fixed.findings) for fixed in changed.values())
    what = f"{plural(count, 'finding')} in {plural(len(changed), 'file')}"
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            out(f"Nothing was written: --yes fixes {what}.")
            return False
        if not confirm(f"Fix {what}?"):
            out("Nothing was changed.")
            return False
    written = 0
    for path, fixed in changed.items():
        try:
            write_manifest_file(path, fixed.after, expected=fixed.before)
        except PodtuiError as error:
            out(f"{path}: {error}")
        else:
            written += 1
    out(f"Fixed {what}." if written == len(changed) else f"{len(changed) - written} not written.")
    return written == len(changed)


def _fixed_files(paths: Sequence[Path], settings: Settings) -> dict[Path, Fixed]:
    """Return the files with fixes. A fix that adds a finding to any file of its folder is left
    out: a corrected name may be that of another pod."""
    node, strict = settings.nodeName, settings.kubeletStrict
    before = {check.path: check for check in check_paths(paths, node_name=node, strict=strict)}
    fixed: dict[str, Fixed] = {}
    for check in before.values():
        if check.state is ManifestState.IGNORED or not check.diagnostics:
            continue
        path = os.path.abspath(check.path)
        try:
            data = read_manifest_file(Path(path))
        except PodtuiError:
            # The check that follows reports the error.
            continue
        result = fix_text(path, data, node_name=node, strict=strict)
        if result.findings:
            fixed[check.path] = result
    while fixed:
        contents = {path: result.after for path, result in fixed.items()}
        after = check_paths(paths, node_name=node, strict=strict, contents=contents)
        worse = [
            check.path
            for check in after
            if not is_better(before[check.path].diagnostics, check.diagnostics)
        ]
        if not worse:
            break
        # If the file is not changed itself, any of the fixes of its folder may be the cause.
        for path in worse:
            gone = [path] if path in fixed else _beside(path, fixed)
            for name in gone:
                fixed.pop(name, None)
    return {Path(path): result for path, result in fixed.items()}


def _beside(path: str, paths: Iterable[str]) -> list[str]:
    folder = os.path.dirname(os.path.abspath(path))
    return [other for other in paths if os.path.dirname(os.path.abspath(other)) == folder]


def fix_stdin(settings: Settings, *, err: Callable[[str], None]) -> bool:
    """Copy a manifest from standard input to standard output with its fixes; return whether no
    error and no unread pod remains. ``err`` prints a remaining finding."""
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"standard input is larger than {MAX_BYTES} bytes")
    node, strict = settings.nodeName, settings.kubeletStrict
    fixed = fix_text("/dev/stdin", data, node_name=node, strict=strict)
    sys.stdout.buffer.write(fixed.after)
    sys.stdout.buffer.flush()
    left = read_manifest("/dev/stdin", fixed.after, node_name=node, strict=strict).diagnostics
    for finding in left:
        position = f"{finding.line}:{finding.column}: " if finding.line is not None else ""
        err(lines(f"{STDIN}:{position}{finding.severity.lower()}: {finding.text}"))
    return not any(d.severity is Severity.ERROR or d.code == FURTHER_DOCUMENT for d in left)


def diff(name: str, fixed: Fixed, *, color: bool) -> Iterator[str]:
    """Yield the fixes as a unified diff."""
    if fixed.secret:
        count = plural(len(fixed.findings), "fix", "fixes")
        yield lines(f"{name}: {count}, not shown: the file may contain a Secret")
        return
    before, after = (
        source_lines(text.decode().removesuffix("\n")) for text in (fixed.before, fixed.after)
    )
    for line in difflib.unified_diff(before, after, name, name, lineterm="", n=_CONTEXT):
        tone = _TONES.get(line[:1], "") if color else ""
        yield f"{tone}{lines(line)}{_RESET if tone else ''}"
