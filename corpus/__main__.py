"""``python -m corpus PATH``: run the apps below a folder or in an archive, print the results, and
save them with ``--write``. Returns 1 after a crash or a hang."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from corpus import agents
from corpus.apps import App, Skipped, apps_below, unpack
from corpus.report import markdown
from corpus.trial import QUIET_SECONDS, Outcome, run_app
from podtui import __version__

TARGET = Path(__file__).resolve().parent.parent / "docs" / "corpus.md"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m corpus", description=__doc__)
    parser.add_argument("path", type=Path, help="a folder, or an archive such as tar.xz")
    parser.add_argument("--only", default="", metavar="TEXT", help="apps whose path contains it")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="agents at a time")
    parser.add_argument(
        "--quiet", type=float, default=QUIET_SECONDS, metavar="SECONDS",
        help="an app has settled if nothing changes for so long",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help=f"write docs/{TARGET.name}")
    given = parser.parse_args(arguments)
    skipped = Skipped()
    with tempfile.TemporaryDirectory(prefix="podtui-corpus-") as base:
        root = unpack(given.path, Path(base))
        apps = [a for a in apps_below(root, skipped) if given.only in f"{a.repository}/{a.folder}"]
    if not apps:
        parser.error(f"{given.path}: there is no app")
    begin = time.monotonic()
    outcomes = asyncio.run(run_all(apps, given.at_once, given.quiet))
    minutes = (time.monotonic() - begin) / 60
    conditions = (
        f"{datetime.now(UTC):%Y-%m-%d}, podtui {__version__}: {len(apps)} apps of"
        f" `{given.path.resolve().name}` in {minutes:.0f} minutes."
    )
    text = markdown(outcomes, skipped, conditions)
    print(text)
    if given.write:
        TARGET.write_text(text, encoding="utf-8")
    return 1 if any(outcome.failure for outcome in outcomes) else 0


async def run_all(apps: Sequence[App], at_once: int, quiet: float) -> list[Outcome]:
    """Run the apps, each on an agent of its own, several at a time."""
    agents.preload()
    free = asyncio.Semaphore(at_once)

    async def run(app: App) -> Outcome:
        async with free:
            outcome = await run_app(app, quiet)
        count = f"{outcome.alone.count}/{len(app.workloads)}"
        line = f"{count} {app.repository}/{app.folder} {outcome.seconds:.0f} s {outcome.failure}"
        print(line.strip(), file=sys.stderr, flush=True)
        return outcome

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(app)) for app in apps]
    return [task.result() for task in tasks]


if __name__ == "__main__":
    sys.exit(main())
