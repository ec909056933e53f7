"""Print the figures of the structure: modules, lines, circles of imports, upward imports.

Imports inside functions and for types count. `lint-imports` fails on a circle, a pair or an upward
import; this script counts them, for the table in ``docs/decisions/0021-one-restructuring.md``.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from pathlib import Path

SMALL = 60
Imports = Mapping[str, frozenset[str]]


def modules_of(root: Path) -> dict[str, Path]:
    """Return the files of the package by dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / "podtui").rglob("*.py"))
    }


def imports_of(modules: Mapping[str, Path]) -> Imports:
    """Return the modules that each module imports, at any depth."""
    return {
        name: frozenset(_imported(path, modules)) & modules.keys() - {name}
        for name, path in modules.items()
    }


def _imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def circle(imports: Imports) -> list[str]:
    """Return the modules of one circle of imports; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def mutual_pairs(imports: Imports, package: str) -> list[tuple[str, str]]:
    """Return the pairs of children of a package that import each other."""
    depth = package.count(".") + 1
    arrows = {
        (one.split(".")[depth], other.split(".")[depth])
        for one, others in imports.items()
        for other in others
        if one.startswith(f"{package}.") and other.startswith(f"{package}.")
    }
    names = sorted({name for arrow in arrows for name in arrow})
    return [pair for pair in combinations(names, 2) if {pair, pair[::-1]} <= arrows]


def layers_of(root: Path) -> Iterator[dict[str, int]]:
    """Yield the depth of each package, by dotted name, for each ``layers`` contract."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            yield {
                f"{container}.{name}": depth
                for container in contract["containers"]
                for depth, layer in enumerate(contract["layers"])
                for name in layer.split(" | ")
            }


def upward_imports(imports: Imports, depths: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the imports of a package that is not in a deeper layer."""

    def package(module: str) -> str:
        while module and module not in depths:
            module = module.rpartition(".")[0]
        return module

    pairs = ((one, other) for one, others in imports.items() for other in others)
    return sorted(
        (one, other)
        for one, other in pairs
        if (above := package(one))
        and (below := package(other))
        and above != below
        and depths[above] >= depths[below]
    )


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def figures(root: Path) -> dict[str, str]:
    modules = modules_of(root)
    imports = imports_of(modules)
    sizes = {name: line_count(path) for name, path in modules.items()}
    own = [sizes[name] for name, path in modules.items() if path.name != "__init__.py"]
    largest = max(sizes, key=lambda name: sizes[name])
    packages = [name for name, path in modules.items() if path.name == "__init__.py"]
    pairs = [pair for package in packages for pair in mutual_pairs(imports, package)]
    upward = [pair for depths in layers_of(root) for pair in upward_imports(imports, depths)]
    lines = {
        folder: sum(map(line_count, (root / folder).rglob("*.py")))
        for folder in ("podtui", "tests", "scripts")
    }
    return {
        "modules": f"{len(modules):,}",
        **{f"lines of `{folder}/`": f"{count:,}" for folder, count in lines.items()},
        "median module": f"{statistics.median(own):.0f}",
        f"modules under {SMALL} lines": str(sum(size < SMALL for size in own)),
        f"largest module (`{largest}`)": f"{sizes[largest]:,}",
        "a circle of imports": " → ".join(circle(imports)) or "none",
        "pairs of packages that import each other": ", ".join(map("–".join, pairs)) or "none",
        "upward imports": ", ".join(map(" → ".join, upward)) or "none",
    }


def main() -> int:
    root = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parent.parent
    for name, value in figures(root).items():
        print(f"| {name} | {value} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
