"""``python -m benchmarks.features [--write] [WORD …]``: test the features, print the tables."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import agent as agents
from benchmarks.features.catalogue import FEATURES, FOLDER, Feature
from benchmarks.features.podman_side import PodmanSide
from benchmarks.features.podtui_side import PodtuiSide
from benchmarks.features.side import Side
from benchmarks.pods import podman

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "features.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- features -->", "<!-- /features -->"
AT_ONCE = 3
INTRODUCTION = (
    "Written by `python -m benchmarks.features --write`. Each row is one small manifest, run"
    " with podtui and with `podman kube play` on one machine in one run; a tick means that the"
    " feature worked, in most cases as seen from inside the container. The column of the kubelet"
    " is taken from its reference and recordings, for a static pod of a standalone node."
)

Results = Mapping[str, bool]
"""By the title of a feature."""


def attempt(side: Side, index: int, feature: Feature) -> bool:
    """Run the feature's manifest and check its effect."""
    name = f"f{index}"
    side.play(name, feature.manifest(name))
    deadline = time.monotonic() + feature.seconds
    seen = False
    try:
        while time.monotonic() < deadline and not (seen and not feature.holds):
            seen = feature.check(side, name)
            time.sleep(0.25)
        return feature.check(side, name) if feature.holds else seen
    finally:
        side.remove(name)


def try_all(side: Side, features: Sequence[Feature]) -> Results:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(lambda pair: attempt(side, *pair), enumerate(features))
            return {feature.title: result for feature, result in zip(features, found, strict=True)}
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def groups(features: Iterable[Feature]) -> dict[str, list[Feature]]:
    found: dict[str, list[Feature]] = {}
    for feature in features:
        found.setdefault(feature.group, []).append(feature)
    return found


def mark(yes: bool) -> str:
    return "✓" if yes else "–"


def document(features: Sequence[Feature], peer: Results, ours: Results, version: str) -> str:
    lines = [
        "# Features of a Pod: kubelet, podman, podtui",
        "",
        INTRODUCTION,
        "",
        f"Peer: {version}. Its probes need systemd's timers, which the machine measured lacks.",
    ]
    for group, members in groups(features).items():
        lines += ["", f"## {group}", "", "| | kubelet | podman kube play | podtui |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| {one.title} | {mark(one.kubelet)} | {mark(peer[one.title])} |"
            f" {mark(ours[one.title])} |"
            for one in members
        ]
    return "\n".join(lines) + "\n"


def summary(features: Sequence[Feature], peer: Results, ours: Results, version: str) -> str:
    lines = [
        f"| tried | kubelet, standalone | kube play of {version} | podtui |",
        "|---|---|---|---|",
    ]
    for group, members in groups(features).items():
        size = len(members)
        kubelet = sum(one.kubelet for one in members)
        counts = [sum(side[one.title] for one in members) for side in (peer, ours)]
        cells = " | ".join(f"{count} of {size}" for count in (kubelet, *counts))
        lines.append(f"| {group} | {cells} |")
    return "\n".join(lines)


def write(features: Sequence[Feature], peer: Results, ours: Results, version: str) -> None:
    TARGET.write_text(document(features, peer, ours, version))
    head, _, rest = README.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = summary(features, peer, ours, version)
    README.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("words", nargs="*", help="only features whose title has one of these")
    parser.add_argument("--write", action="store_true", help="write docs/features.md and README")
    parser.add_argument("--without-peer", action="store_true", help="podtui alone")
    arguments = parser.parse_args()
    features = [
        one
        for one in FEATURES
        if not arguments.words or any(word in one.title for word in arguments.words)
    ]
    environment = None if arguments.without_peer else podman()
    if environment is None and arguments.write:
        parser.error("podman is not here to compare with: make bench installs it")
    with agents.running() as agent:
        ours = try_all(PodtuiSide(agent, "bench"), features)
    peer: Results = dict.fromkeys(ours, False)
    version = "podman was not tried"
    if environment is not None:
        version = subprocess.run(
            ["podman", "--version"], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            peer = try_all(PodmanSide(Path(folder), environment), features)
    print(document(features, peer, ours, version))
    print(summary(features, peer, ours, version))
    if arguments.write:
        write(features, peer, ours, version)
    return 0 if all(ours.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
