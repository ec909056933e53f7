"""Each cause, produced on the simulated kubelet, is found; each fix resolves it."""

from __future__ import annotations

import pytest
from cause_cases import CAUSES, Cause
from kubelet_world import World
from msgspec import structs
from why_world import diagnosed_pod, fix_index, fixed

from podtui.api.local import Diagnostic, Severity
from podtui.why import Diagnosis, Kind

pytestmark = pytest.mark.virtual_time


def world_of(cause: Cause) -> World:
    world = World(**cause.world)
    cause.set(world)
    return world


async def diagnosis_of(cause: Cause, text: str) -> Diagnosis:
    async with diagnosed_pod(text, world_of(cause)) as it:
        return await it.until(cause.cause, logs={"c": cause.logs})


@pytest.mark.parametrize("cause", CAUSES, ids=str)
async def test_the_cause_is_found_and_its_fix_resolves_it(cause: Cause) -> None:
    diagnosis = await diagnosis_of(cause, cause.text)
    assert diagnosis.field == cause.field
    assert "{" not in diagnosis.title + "".join(diagnosis.sentences) + diagnosis.advice
    if diagnosis.kind is Kind.FAILURE:
        assert 0 < len(diagnosis.brief) < len(diagnosis.title)
        assert "{" not in diagnosis.brief
    if cause.field and cause.text.count(cause.field.rpartition(".")[2].partition("[")[0]):
        assert diagnosis.position is not None
    for number, fix in enumerate(diagnosis.fixes):
        if not fix.edits:
            assert fix.line is not None
            continue
        new = fixed(diagnosis, cause.text, number)
        remarks = [line.partition("#")[2] for line in cause.text.splitlines() if "#" in line]
        removed = "".join(edit.old for edit in fix.edits)
        assert all(remark in new + removed for remark in remarks), fix
    if cause.fix:
        new = fixed(diagnosis, cause.text, fix_index(diagnosis, cause.fix))
        async with diagnosed_pod(new, world_of(cause)) as it:
            await it.world.sleep(40.0)
            after = await it.why()
        assert after.cause != cause.cause


KEY = next(cause for cause in CAUSES if cause.cause == "KeyMissing")


async def test_a_missing_key_is_corrected_in_the_editor_first() -> None:
    """What is right is not known: the key may be misspelt. Without it, the variable is not set."""
    diagnosis = await diagnosis_of(KEY, KEY.text)
    line = 1 + next(n for n, text in enumerate(KEY.text.splitlines()) if "key: " in text)
    assert diagnosis.position is not None
    assert [(fix.title, fix.line) for fix in diagnosis.fixes] == [
        ("Correct the key in the editor", line),
        ("Start without it: optional true", None),
    ]
    assert diagnosis.position[0] == line


async def test_a_missing_key_is_shown_beside_the_keys_that_exist() -> None:
    async with diagnosed_pod(KEY.text, world_of(KEY)) as it:
        await it.until("KeyMissing")
        text = 'there is no key "a"; the ConfigMap settings has "b"'
        finding = Diagnostic(severity=Severity.WARNING, path="/m/web.yaml", code="NotFound",
                             message=text, line=9, field=KEY.field)  # fmt: skip
        status = structs.replace(it.manifest.status, diagnostics=(finding,))
        diagnosis = await it.why(manifest=structs.replace(it.manifest, status=status))
    assert any(text in evidence.text for evidence in diagnosis.evidence)


async def test_the_line_is_named_also_if_the_text_may_contain_a_secret() -> None:
    async with diagnosed_pod(KEY.text, world_of(KEY)) as it:
        diagnosis = await it.until("KeyMissing")
        spec = structs.replace(it.manifest.spec, text="")
        secret = await it.why(manifest=structs.replace(it.manifest, spec=spec))
    assert (secret.position, secret.written, secret.fixes) == (diagnosis.position, True, ())
