from __future__ import annotations

from pathlib import Path

import structure


def tree(root: Path, **files: str) -> structure.Imports:
    """Write modules (``__`` stands for a folder) and return their imports."""
    for name, text in files.items():
        path = root / "podtui" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in [root / "podtui", *(p for p in (root / "podtui").iterdir() if p.is_dir())]:
        (folder / "__init__.py").touch()
    return structure.imports_of(structure.modules_of(root))


def test_imports_inside_functions_close_a_circle(tmp_path: Path) -> None:
    imports = tree(
        tmp_path,
        a__x="def f():\n    from podtui.b import y\n",
        b__y="from podtui.a.x import f\n",
    )
    assert set(structure.circle(imports)) == {"podtui.a.x", "podtui.b.y"}
    assert structure.mutual_pairs(imports, "podtui") == [("a", "b")]


def test_packages_can_import_each_other_without_a_circle_of_modules(tmp_path: Path) -> None:
    imports = tree(tmp_path, a__x="from podtui.b.y import f\n", a__z="", b__y="import podtui.a.z\n")
    assert structure.circle(imports) == []
    assert structure.mutual_pairs(imports, "podtui") == [("a", "b")]


def test_imports_of_the_same_or_a_higher_layer_go_up(tmp_path: Path) -> None:
    imports = tree(
        tmp_path,
        top__x="from podtui.low import y\nfrom podtui.top import z\n",
        top__z="",
        left="",
        low__y="def f():\n    from podtui.top import z\nfrom podtui import left\n",
    )
    (tmp_path / "pyproject.toml").write_text(
        "[[tool.importlinter.contracts]]\n"
        'type = "layers"\ncontainers = ["podtui"]\nlayers = ["top", "low | left"]\n'
    )
    [depths] = structure.layers_of(tmp_path)
    assert structure.upward_imports(imports, depths) == [
        ("podtui.low.y", "podtui.left"),
        ("podtui.low.y", "podtui.top.z"),
    ]
