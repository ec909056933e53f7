"""Each cause, produced on the simulated kubelet, is found; each fix resolves it."""

from __future__ import annotations

import pytest
from cause_cases import CAUSES, Cause
from kubelet_world import World
from why_world import asked, fix_index, fixed

from podtui.why import Diagnosis

pytestmark = pytest.mark.virtual_time


def world_of(cause: Cause) -> World:
    world = World(**cause.world)
    cause.set(world)
    return world


async def found(cause: Cause, text: str) -> Diagnosis:
    async with asked(text, world_of(cause)) as it:
        return await it.until(cause.cause, logs={"c": cause.logs})


@pytest.mark.parametrize("cause", CAUSES, ids=str)
async def test_the_cause_is_found_and_its_fix_resolves_it(cause: Cause) -> None:
    said = await found(cause, cause.text)
    assert said.field == cause.field
    assert "{" not in said.title + "".join(said.sentences) + said.advice
    if cause.field and cause.text.count(cause.field.rpartition(".")[2].partition("[")[0]):
        assert said.place is not None
    for number, fix in enumerate(said.fixes):
        new = fixed(said, cause.text, number)
        remarks = [line.partition("#")[2] for line in cause.text.splitlines() if "#" in line]
        removed = "".join(edit.old for edit in fix.edits)
        assert all(remark in new + removed for remark in remarks), fix
    if cause.fix:
        new = fixed(said, cause.text, fix_index(said, cause.fix))
        async with asked(new, world_of(cause)) as it:
            await it.world.sleep(40.0)
            after = await it.why()
        assert after.cause != cause.cause
