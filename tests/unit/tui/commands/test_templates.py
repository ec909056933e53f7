"""Included templates: each creates a pod immediately, under any name."""

from __future__ import annotations

import pytest

from podtui.manifest.diagnose import read_manifest
from podtui.tui.commands.create_pod import (
    free_name,
    name_problem,
    named,
    read_templates,
    template_of,
)

TEMPLATES = read_templates()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)
def test_a_template_creates_a_pod_of_the_given_name(template) -> None:  # type: ignore[no-untyped-def]
    result = read_manifest("/m/my-app.yaml", named(template, "my-app"), node_name="n1")
    (pod,) = result.pods
    assert pod.metadata.name == "my-app-n1"
    assert pod.metadata.labels == {"app": "my-app"}
    assert {d.code for d in result.diagnostics} <= {"NotPortable"}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)
def test_a_template_has_a_description(template) -> None:  # type: ignore[no-untyped-def]
    assert 20 < len(template.description) < 160
    assert template.description.endswith(".")


def test_nothing_but_the_name_is_changed() -> None:
    text = "# It.\n# Does.\nmetadata:\n  name: web\n  labels:\n    app: web\nspec: web\n"
    template = template_of("web", text)
    assert template.description == "It. Does."
    assert named(template, "x").decode() == text.replace("e: web", "e: x").replace("p: web", "p: x")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("web", ""),
        ("a.b-c.1", ""),
        ("", "the name must not be empty"),
        ("Web", "must consist of lower case"),
        ("-a", "must consist of lower case"),
        ("a/b", "must consist of lower case"),
        ("a..b", "must consist of lower case"),
        ("taken", "taken.yaml already exists"),
        ("x" * 201, "must be no more than 200"),
    ],
)
def test_a_name_is_validated_before_a_file_is_created(name: str, problem: str) -> None:
    assert name_problem(name, {"taken.yaml"}).startswith(problem)
    assert bool(name_problem(name, {"taken.yaml"})) == bool(problem)


def test_a_free_name_is_proposed() -> None:
    assert free_name("web", {"web.yaml", "web-2.yaml"}) == "web-3"
    assert free_name("job", {"web.yaml"}) == "job"
