"""Each cause, produced on the simulated kubelet, is found; each fix resolves it."""

from __future__ import annotations

import pytest
from cause_cases import CAUSES, Cause
from kubelet_world import World
from why_world import diagnosed_pod, fix_index, fixed

from podtui.why import Diagnosis, Kind

pytestmark = pytest.mark.virtual_time


def world_of(cause: Cause) -> World:
    world = World(**cause.world)
    cause.set(world)
    return world


async def found(cause: Cause, text: str) -> Diagnosis:
    async with diagnosed_pod(text, world_of(cause)) as it:
        return await it.until(cause.cause, logs={"c": cause.logs})


@pytest.mark.parametrize("cause", CAUSES, ids=str)
async def test_the_cause_is_found_and_its_fix_resolves_it(cause: Cause) -> None:
    diagnosis = await found(cause, cause.text)
    assert diagnosis.field == cause.field
    assert "{" not in diagnosis.title + "".join(diagnosis.sentences) + diagnosis.advice
    if diagnosis.kind is Kind.FAILURE:
        assert 0 < len(diagnosis.brief) < len(diagnosis.title)
        assert "{" not in diagnosis.brief
    if cause.field and cause.text.count(cause.field.rpartition(".")[2].partition("[")[0]):
        assert diagnosis.place is not None
    for number, fix in enumerate(diagnosis.fixes):
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
